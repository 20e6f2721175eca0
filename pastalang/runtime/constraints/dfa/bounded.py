"""The machine of a string with a pattern and limits of length: the pattern's table and a count of characters.

    state of the table, characters so far            a pair; the product automaton is never built
    a token reaches a state and adds characters      allowed if some ending keeps the limits of length

The distance from each state to an end is known for every number of characters, so a mask needs only a comparison.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.dfa.spelling import Spelling
from pastalang.runtime.constraints.dfa.table import DEAD, Table
from pastalang.runtime.constraints.dfa.table_machine import ClosingTokens, closing_follower, shared_follower
from pastalang.runtime.constraints.dfa.transitions import Follower, Transitions
from pastalang.runtime.constraints.guide import GuideError, MachineState, TokenMask
from pastalang.runtime.constraints.masks import frozen, mask_of_many
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.token_bytes import Rows, seam_rows, token_rows
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints

_MAX_MASKS = 512
_MAX_ENDINGS = 4_096
_FAR = 1 << 30
_UNLIMITED = 1 << 40


class BoundedState(NamedTuple):
    """A state of the table, a place of the spelling, and the number of complete characters."""

    at: int
    place: int
    characters: int


class BoundedMachine:
    """See `guide.Machine`."""

    def __init__(self, table: Table, lengths: LengthLimits, spelling: Spelling, seam: Seam) -> None:
        self._table = table
        self._lengths = lengths
        self._spelling = spelling
        self._tokens: Tokens = seam.tokens
        self._inside = shared_follower(table, seam.tokens)
        self._cut = seam_rows(seam.tokens, seam.follow) if seam.follow else None
        self._crossing = None if self._cut is None else Follower(table, _numbered(self._cut), len(self._cut))
        self._cut_counts: dict[int, Ints] = {}
        self._masks: BoundedCache[object, TokenMask] = BoundedCache(_MAX_MASKS)
        # by state and characters
        self._endings: BoundedCache[tuple[int, int], tuple[int, ...] | None] = BoundedCache(_MAX_ENDINGS)
        self.start: MachineState = BoundedState(0, spelling.start, 0)

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        here = _state(state)
        at = int(self._table.rows[here.at, byte])
        if at == DEAD:
            return None
        place = int(self._spelling.next[here.place, byte])
        characters = here.characters + int(self._spelling.completes[here.place, byte])
        return BoundedState(at, place, characters) if self._lengths.fits(at, characters) else None

    def accepts(self, state: MachineState) -> bool:
        here = _state(state)
        return bool(self._table.accepting[here.at]) and self._lengths.allows(here.characters)

    def can_continue(self, state: MachineState) -> bool:
        return bool(self._ways(state))

    def stop_bytes(self, state: MachineState) -> int:
        return 0

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        here = _state(state)
        return self._ending(here.at, here.characters)

    def _ending(self, at: int, characters: int) -> tuple[int, ...] | None:
        return self._endings.cached(
            (at, characters), lambda: self._tokens.shortest(self._lengths.ending(at, characters))
        )

    def forced(self, state: MachineState) -> bytes:
        found = bytearray()
        while not self.accepts(state) and len(ways := self._ways(state)) == 1:
            following = self.step(state, ways[0])
            assert following is not None, "an allowed byte without a next state"
            found.append(ways[0])
            state = following
        return bytes(found)

    def _ways(self, state: MachineState) -> list[int]:
        here = _state(state)
        bytes_ = np.flatnonzero(self._table.rows[here.at] != DEAD)
        counts = here.characters + self._spelling.completes[here.place, bytes_].astype(np.int64)
        found: list[int] = bytes_[self._lengths.fit(self._table.rows[here.at, bytes_], counts)].tolist()
        return found

    def completing(self, state: MachineState, closers: ClosingTokens) -> Ints:
        """The indexes of the rows that complete the value."""
        here = _state(state)
        rows = closing_follower(self._table, closers, self._tokens).accepted(here.at)
        key = ("characters of closers", id(self._spelling), here.place)
        added = self._tokens.cached(key, lambda: _completed(self._spelling, here.place, closers.rows))
        return rows[self._lengths.all_allow(here.characters + added[rows])]

    def warm(self) -> None:
        """Compute the masks of the start and after the opening quote."""
        self.mask(self.start, None)
        if self._spelling.closing and (opened := self.step(self.start, self._spelling.closing[0])) is not None:
            self.mask(opened, None)

    # ── masks ──────────────────────────────────────────────────────────────────────────────────────────────

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        here = _state(state)
        room = self._lengths.room(here.characters, self._tokens.longest)
        if remaining is not None and self._is_plenty(here, remaining - 1):
            remaining = None
        return self._masks.cached((here.at, here.place, room, remaining), lambda: self._make_mask(here, remaining))

    def _is_plenty(self, here: BoundedState, left: int) -> bool:
        """Whether an ending fits after every token."""
        return self._tokens.vocabulary.covers_bytes and left >= self._lengths.most_bytes

    def _make_mask(self, here: BoundedState, remaining: int | None) -> TokenMask:
        transitions = self._inside.transitions(here.at)
        counts = here.characters + _counts_from(self._spelling, here.place, self._tokens)[transitions.tokens]
        good = self._lengths.fit(transitions.ends, counts)
        closes = self._closes(transitions.ends, counts, good, remaining)
        parts = [mask_of_many(self._tokens.size, transitions.tokens[closes])]
        parts += self._whole(here, transitions, remaining)
        if self._crossing is not None:
            parts.append(self._across(here))
        joined = parts[0].copy()
        for part in parts[1:]:
            np.bitwise_or(joined, part, out=joined)
        return frozen(joined)

    def _whole(self, here: BoundedState, transitions: Transitions, remaining: int | None) -> list[TokenMask]:
        """The tokens that consist of characters of one class, which the automaton does not distinguish.

        Such classes only occur between characters and at the last digit of an escape: each character adds one.
        """
        parts: list[TokenMask] = []
        for slice, chain in transitions.slices:
            ends = chain[: slice.reached]
            counts = here.characters + np.arange(len(ends))
            parts.append(slice.mask(self._closes(ends, counts, self._lengths.fit(ends, counts), remaining)))
        return parts

    def _closes(
        self, ends: Ints | NDArray[np.int32], counts: Ints, good: NDArray[np.bool_], remaining: int | None
    ) -> NDArray[np.bool_]:
        """The good ones after which an ending fits into the remaining tokens."""
        if remaining is None and self._tokens.vocabulary.covers_bytes:
            return good
        found = np.zeros(len(ends), dtype=np.bool_)
        known: dict[tuple[int, int], bool] = {}
        for number in np.flatnonzero(good).tolist():
            key = int(ends[number]), int(counts[number])
            if key not in known:
                ending = self._ending(*key)
                known[key] = ending is not None and (remaining is None or len(ending) <= remaining - 1)
            found[number] = known[key]
        return found

    def _across(self, here: BoundedState) -> TokenMask:
        """The tokens that cross the seam: the value ends inside them."""
        assert self._crossing is not None and self._cut is not None
        if here.place not in self._cut_counts:
            self._cut_counts[here.place] = _completed(self._spelling, here.place, self._cut)
        rows = self._crossing.accepted(here.at)
        counts = here.characters + self._cut_counts[here.place][rows]
        return mask_of_many(self._tokens.size, self._cut.ids[rows[self._lengths.all_allow(counts)]])


def _numbered(rows: Rows) -> Rows:
    return Rows(rows.letters, rows.starts, rows.ends, np.arange(len(rows)))


def _counts_from(spelling: Spelling, place: int, tokens: Tokens) -> Ints:
    """For each token, the number of characters that it completes from the place."""

    def count() -> Ints:
        rows = token_rows(tokens)
        found = np.zeros(tokens.size, dtype=np.int64)
        found[rows.ids] = _completed(spelling, place, rows)
        return found

    return tokens.cached(("completed characters", id(spelling), place), count)


def prepare_counts(spelling: Spelling, tokens: Tokens) -> None:
    """Compute the counts from the start and from between characters, which nearly every mask needs."""
    _counts_from(spelling, spelling.start, tokens)
    for byte in spelling.closing[:1]:
        _counts_from(spelling, int(spelling.next[spelling.start, byte]), tokens)


def _completed(spelling: Spelling, place: int, rows: Rows) -> Ints:
    """The number of characters that each row completes from the place, as far as it stays inside the spelling."""
    counts = np.zeros(len(rows), dtype=np.int64)
    live = np.arange(len(rows))
    here, at, ends = np.full(len(rows), place), rows.starts, rows.ends
    while len(live):
        bytes_ = rows.letters.flat[at]
        counts[live] += spelling.completes[here, bytes_]
        here, at = spelling.next[here, bytes_].astype(np.int64), at + 1
        going = (here != DEAD) & (at < ends)
        live, here, at, ends = live[going], here[going], at[going], ends[going]
    return counts


def _state(state: MachineState) -> BoundedState:
    assert isinstance(state, BoundedState)
    return state


class LengthLimits:
    """Limits of `least` to `most` characters for the values of a table.

    `_bytes[r, s]` are the fewest bytes from state s to an end that complete exactly r characters.
    """

    def __init__(self, table: Table, spelling: Spelling, least: int, most: int | None) -> None:
        self._least = least
        self._most = _UNLIMITED if most is None else most
        self._edges = _Edges(table, spelling)
        self._bytes = self._distances(table)
        finite = self._bytes < _FAR
        self._before = np.zeros((len(finite) + 1, finite.shape[1]), dtype=np.int32)
        np.cumsum(finite, axis=0, out=self._before[1:])  # [r, s]: how many r' < r reach an end
        self.most_bytes = int(self._bytes[finite].max(initial=0)) if least == 0 else _UNLIMITED
        if not self.fits(0, 0):
            raise GuideError("no string fits the pattern, the format and the limits of length together")

    def _distances(self, table: Table) -> NDArray[np.int32]:
        """As many rows as matter: for a longer ending there is always a shorter one that keeps the limits."""
        states = table.size + 1
        last = np.where(table.accepting, 0, _FAR).astype(np.int32)
        rows = [self._edges.within(last)]
        longest = min(self._most, self._least + states)
        while len(rows) <= longest:
            if not self._least and (np.minimum.reduce(rows)[:-1] < _FAR).all():
                break
            rows.append(self._edges.within(self._edges.completing(rows[-1])))
        return np.stack(rows)

    # ── queries ────────────────────────────────────────────────────────────────────────────────────────────

    def allows(self, characters: int) -> bool:
        return self._least <= characters <= self._most

    def all_allow(self, characters: NDArray[np.int64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (characters >= self._least) & (characters <= self._most)
        return found

    def fits(self, state: int, characters: int) -> bool:
        """As `fit`, for one state."""
        rows = len(self._bytes)
        low = min(max(self._least - characters, 0), rows)
        beyond = min(max(self._most - characters + 1, low), rows)
        return bool(self._before.item(beyond, state) > self._before.item(low, state))

    def fit(self, states: NDArray[np.int64] | NDArray[np.int32], characters: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each state and number of complete characters, whether some ending keeps the limits."""
        rows = len(self._bytes)
        beyond = np.minimum(np.maximum(self._most - characters + 1, 0), rows)
        if not self._least:
            return self._before[beyond, states] > 0
        low = np.minimum(np.maximum(self._least - characters, 0), rows)
        found: NDArray[np.bool_] = self._before[np.maximum(beyond, low), states] > self._before[low, states]
        return found

    def room(self, characters: int, longest: int) -> tuple[int, int]:
        """The part of the limits that a mask depends on: limits that are far away have the same mask."""
        return max(self._least - characters, 0), min(self._most - characters, longest + len(self._bytes))

    def ending(self, state: int, characters: int) -> bytes:
        """A few bytes to an end within the limits."""
        low = max(self._least - characters, 0)
        column = self._bytes[low : min(self._most - characters + 1, len(self._bytes)), state]
        left, text = low + int(column.argmin()), bytearray()
        while (ahead := int(self._bytes[left, state])) > 0:
            byte, state, completes = self._edges.nearer(state, self._bytes[: left + 1], left, ahead)
            text.append(byte)
            left -= completes
        return bytes(text)


class _Edges:
    """The transitions of a table, one for each range of bytes that lead to the same state, sorted by their state."""

    def __init__(self, table: Table, spelling: Spelling) -> None:
        rows = table.rows
        fresh = np.ones(rows.shape, dtype=np.bool_)
        fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
        states, bytes_ = np.nonzero(fresh & (rows != DEAD))
        self._from, self._byte, self._to = states, bytes_, rows[states, bytes_]
        self._starts = np.searchsorted(states, np.arange(len(rows) + 1))
        self._completes = spelling.completes[_places(self, table, spelling)[states], bytes_]
        self._states = len(rows)

    def span(self, state: int) -> slice:
        return slice(int(self._starts[state]), int(self._starts[state + 1]))

    def completing(self, before: NDArray[np.int32]) -> NDArray[np.int32]:
        """The distances over one byte that completes a character, given those with one character less."""
        return self._least(before, self._completes)

    def within(self, found: NDArray[np.int32]) -> NDArray[np.int32]:
        """The distances including bytes that do not complete a character: bytes inside one, and quotes."""
        while True:
            nearer = np.minimum(found, self._least(found, ~self._completes))
            if (nearer == found).all():
                return nearer
            found = nearer

    def _least(self, ahead: NDArray[np.int32], chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
        found = np.full(self._states, _FAR, dtype=np.int32)
        edges = np.flatnonzero(chosen & (ahead[self._to] < _FAR))
        np.minimum.at(found, self._from[edges], ahead[self._to[edges]] + 1)
        return found

    def nearer(self, state: int, bytes_: NDArray[np.int32], left: int, ahead: int) -> tuple[int, int, int]:
        """One step towards an end: its byte, its state and whether it completes a character."""
        span = self.span(state)
        for byte, following, completes in zip(
            self._byte[span].tolist(), self._to[span].tolist(), self._completes[span].tolist(), strict=True
        ):
            if left >= completes and bytes_[left - completes, following] == ahead - 1:
                return byte, following, int(completes)
        raise AssertionError("no transition has this distance")


def _places(edges: _Edges, table: Table, spelling: Spelling) -> NDArray[np.int64]:
    """The place in the spelling of each state: all texts that reach a state end at the same byte of a character."""
    found = np.zeros(len(table.rows), dtype=np.int64)
    found[0] = spelling.start
    seen, waiting = {0}, [0]
    while waiting:
        state = waiting.pop()
        span = edges.span(state)
        for byte, following in zip(edges._byte[span].tolist(), edges._to[span].tolist(), strict=True):
            if following not in seen:
                seen.add(following)
                found[following] = spelling.next[found[state], byte]
                waiting.append(following)
    return found
