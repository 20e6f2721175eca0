"""The machine of a value whose automaton is small enough for a table (see `table`).

Masks are computed from rows of tokens. All holes of a type share what does not depend on the text after the value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from pastalang.runtime.constraints.bounded_cache import BoundedCache, LruCache
from pastalang.runtime.constraints.dfa.table import Table
from pastalang.runtime.constraints.dfa.transitions import Follower, Transitions
from pastalang.runtime.constraints.guide import MachineState, TokenMask
from pastalang.runtime.constraints.masks import mask_of_many
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.token_bytes import Flags, Rows, seam_rows, token_rows
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints

_MAX_MASKS = 512
_MAX_FOLLOWERS = 128
_NEVER = 1 << 40
_WARM_STATES = 32
_WARM_TOKENS = 3_000  # tokens: `warm` stops after so many transitions
_WARM_BYTES = 12


class TableMachine:
    """See `guide.Machine`. Its states are the states of the table."""

    def __init__(self, table: Table, seam: Seam) -> None:
        self._table = table
        self._tokens: Tokens = seam.tokens
        self._inside = shared_follower(table, seam.tokens)
        self._crossing = _crossing_follower(table, seam)
        self._costs = seam.tokens.cached_recent(("costs", table), lambda: _Costs(table, seam.tokens))
        self._masks: BoundedCache[tuple[int, int | None], TokenMask] = BoundedCache(_MAX_MASKS)
        self._crossing_masks: dict[int, TokenMask] = {}
        self.start: MachineState = 0

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        following = int(self._table.rows[_at(state), byte])
        return None if following < 0 else following

    def accepts(self, state: MachineState) -> bool:
        return bool(self._table.accepting[_at(state)])

    def can_continue(self, state: MachineState) -> bool:
        return bool(self._table.ways[_at(state)])

    def stop_bytes(self, state: MachineState) -> int:
        return 0

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        return self._costs.ending(_at(state))

    def forced(self, state: MachineState) -> bytes:
        table, found, at = self._table, bytearray(), _at(state)
        while not table.accepting[at] and table.ways[at] == 1:
            byte = int(table.rows[at].argmax())
            found.append(byte)
            at = int(table.rows[at, byte])
        return bytes(found)

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        at = _at(state)
        transitions = self._inside.transitions(at)
        if remaining is not None and self._costs.always_fits(at, transitions, remaining - 1):
            remaining = None
        return self._masks.cached((at, remaining), lambda: self._make_mask(at, transitions, remaining))

    def completing(self, state: MachineState, closers: ClosingTokens) -> Ints:
        """The indexes of the rows that complete the value."""
        return closing_follower(self._table, closers, self._tokens).accepted(_at(state))

    def warm(self) -> None:
        """Compute the masks of the states nearest to the start."""
        waiting, seen, followed = [0], {0}, 0
        while waiting and len(seen) <= _WARM_STATES and followed <= _WARM_TOKENS:
            at = waiting.pop(0)
            self.mask(at, None)
            transitions = self._inside.transitions(at)
            followed += len(transitions.tokens)
            fresh = [end for end in transitions.all_ends.tolist() if end >= 0 and end not in seen]
            seen.update(fresh)
            waiting += fresh
        self._warm_shortest()

    def _warm_shortest(self) -> None:
        """Compute the masks along the shortest value, which visits the beginning of each part of a value."""
        at = 0
        for byte in self._table.endings[0][:_WARM_BYTES]:
            at = int(self._table.rows[at, byte])
            self.mask(at, None)

    def _make_mask(self, at: int, transitions: Transitions, remaining: int | None) -> TokenMask:
        is_plenty = remaining is None and self._tokens.vocabulary.covers_bytes
        mask = transitions.mask(
            self._tokens.size, None if is_plenty else self._costs.fits(transitions.all_ends, remaining)
        )
        if self._crossing is None:
            return mask
        crossing = self._crossing_masks.get(at)
        if crossing is None:
            crossing = self._crossing_masks[at] = mask_of_many(self._tokens.size, self._crossing.accepted(at))
        mask = mask | crossing
        mask.flags.writeable = False
        return mask


class _Costs:
    """The number of tokens of each state's ending, computed when a limit comes near."""

    def __init__(self, table: Table, tokens: Tokens) -> None:
        self._table = table
        self._tokens = tokens
        self._endings: dict[int, tuple[int, ...] | None] = {}
        self._known = np.full(table.size + 1, -1, dtype=np.int64)
        self._known[-1] = _NEVER
        self._farthest: dict[int, int] = {}
        self._most = int(table.ending_bytes.max())

    def ending(self, at: int) -> tuple[int, ...] | None:
        if at not in self._endings:
            self._endings[at] = self._tokens.shortest(self._table.endings[at])
        return self._endings[at]

    def always_fits(self, at: int, transitions: Transitions, left: int) -> bool:
        """Whether an ending fits after every token, because it has at most as many bytes as tokens are left."""
        if not self._tokens.vocabulary.covers_bytes:
            return False
        if left >= self._most:
            return True
        if at not in self._farthest:
            self._farthest[at] = transitions.most(self._table.ending_bytes)
        return left >= self._farthest[at]

    def fits(self, ends: Ints, remaining: int | None) -> Flags:
        """For every state, whether its ending fits after a token; only computed for the states `ends`."""
        limit = _NEVER - 1 if remaining is None else remaining - 1
        short = np.zeros(len(self._known), dtype=np.bool_)
        if self._tokens.vocabulary.covers_bytes:  # no ending has more tokens than bytes, and only an empty one has none
            short = self._table.ending_bytes <= limit
            short[-1] = False
            ends = ends[~short[ends]] if limit else ends[:0]
        for end in ends[self._known[ends] < 0].tolist():
            tokens = self.ending(end)
            self._known[end] = _NEVER if tokens is None else len(tokens)
        found: Flags = short | ((self._known <= limit) & (self._known >= 0))
        return found


def shared_follower(table: Table, tokens: Tokens) -> Follower:
    """The follower of tokens that stay inside the value, shared by all seams."""
    return _kept(tokens, (table, b""), lambda: Follower(table, token_rows(tokens), tokens.size))


def closing_follower(table: Table, closers: ClosingTokens, tokens: Tokens) -> Follower:
    """The follower of tokens that close a string inside a structure."""
    return _kept(tokens, (table, "closers"), lambda: Follower(table, closers.rows, len(closers.rows)))


def _crossing_follower(table: Table, seam: Seam) -> Follower | None:
    if not seam.follow:
        return None
    tokens = seam.tokens
    rows = seam_rows(tokens, seam.follow)
    return _kept(tokens, (table, seam.follow), lambda: Follower(table, rows, tokens.size))


def _kept(tokens: Tokens, key: Hashable, make: Callable[[], Follower]) -> Follower:
    """Cache few followers: with large classes one takes some megabytes. A machine keeps its own."""
    known: LruCache[Hashable, Follower] = tokens.cached("followers", lambda: LruCache(_MAX_FOLLOWERS))
    return known.cached(key, make)


def _at(state: MachineState) -> int:
    assert isinstance(state, int)
    return state


@dataclass(frozen=True, eq=False)
class ClosingTokens:
    """Tokens up to a quote, as rows numbered from 0; for each its token and the number of the text after the quote."""

    rows: Rows
    tokens: Ints
    rest: Ints
