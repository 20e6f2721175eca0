"""A string with a pattern and limits of length: the automaton of the pattern, and a count of characters beside it.

    state of the automaton x characters so far       a pair, never a product written out
    a token leads to a state and adds characters     it fits if from there an end is near enough, and far enough

How far an end is from each state is known for every number of characters, so masks need nothing but a comparison.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.dfa.lengths import Lengths
from pastalang.runtime.constraints.dfa.spelling import Spelling
from pastalang.runtime.constraints.dfa.table import DEAD, Table
from pastalang.runtime.constraints.dfa.table_machine import ClosingTokens, closing_follower, shared_follower
from pastalang.runtime.constraints.dfa.transitions import Follower, Transitions
from pastalang.runtime.constraints.guide import MachineState, TokenMask
from pastalang.runtime.constraints.masks import frozen, mask_of_many
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.token_bytes import Rows, seam_rows, token_rows
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints

_MAX_MASKS = 512
_MAX_ENDINGS = 4_096


class Counted(NamedTuple):
    """A state of the table, a place of the spelling, and how many characters are complete."""

    at: int
    place: int
    characters: int


class CountedMachine:
    """See `guide.Machine`."""

    def __init__(self, table: Table, lengths: Lengths, spelling: Spelling, seam: Seam) -> None:
        self._table = table
        self._lengths = lengths
        self._spelling = spelling
        self._tokens: Tokens = seam.tokens
        self._inside = shared_follower(table, seam.tokens)
        self._cut = seam_rows(seam.tokens, seam.follow) if seam.follow else None
        self._crossing = None if self._cut is None else Follower(table, _numbered(self._cut), len(self._cut))
        self._cut_counts: dict[int, Ints] = {}
        self._masks: BoundedCache[object, TokenMask] = BoundedCache(_MAX_MASKS)
        self._endings: BoundedCache[tuple[int, int], tuple[int, ...] | None] = BoundedCache(
            _MAX_ENDINGS
        )  # by state and characters
        self.start: MachineState = Counted(0, spelling.start, 0)

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        here = _counted(state)
        at = int(self._table.rows[here.at, byte])
        if at == DEAD:
            return None
        place = int(self._spelling.next[here.place, byte])
        characters = here.characters + int(self._spelling.completes[here.place, byte])
        return Counted(at, place, characters) if self._lengths.fits(at, characters) else None

    def accepts(self, state: MachineState) -> bool:
        here = _counted(state)
        return bool(self._table.accepting[here.at]) and self._lengths.allows(here.characters)

    def goes_on(self, state: MachineState) -> bool:
        return bool(self._ways(state))

    def trimmed(self, state: MachineState) -> int:
        return 0

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        here = _counted(state)
        return self._ending(here.at, here.characters)

    def _ending(self, at: int, characters: int) -> tuple[int, ...] | None:
        key = (at, characters)
        if key not in self._endings:
            self._endings[key] = self._tokens.shortest(self._lengths.ending(at, characters))
        return self._endings[key]

    def forced(self, state: MachineState) -> bytes:
        found = bytearray()
        while not self.accepts(state) and len(ways := self._ways(state)) == 1:
            following = self.step(state, ways[0])
            assert following is not None, "a way that leads nowhere"
            found.append(ways[0])
            state = following
        return bytes(found)

    def _ways(self, state: MachineState) -> list[int]:
        here = _counted(state)
        bytes_ = np.flatnonzero(self._table.rows[here.at] != DEAD)
        counts = here.characters + self._spelling.completes[here.place, bytes_].astype(np.int64)
        found: list[int] = bytes_[self._lengths.fit(self._table.rows[here.at, bytes_], counts)].tolist()
        return found

    def completing(self, state: MachineState, closers: ClosingTokens) -> Ints:
        """The rows that complete the value, by their numbers."""
        here = _counted(state)
        rows = closing_follower(self._table, closers, self._tokens).accepted(here.at)
        key = ("characters of closers", id(self._spelling), here.place)
        added = self._tokens.keep(key, lambda: completed(self._spelling, here.place, closers.rows))
        return rows[self._lengths.all_allow(here.characters + added[rows])]

    def warm(self) -> None:
        """Makes the masks of the start and of what is behind the opening quote."""
        self.mask(self.start, None)
        if self._spelling.closing and (opened := self.step(self.start, self._spelling.closing[0])) is not None:
            self.mask(opened, None)

    # ── masks ────────────────────────────────────────────────────────────────────────────────────────────

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        here = _counted(state)
        room = self._lengths.room(here.characters, self._tokens.longest)
        if remaining is not None and self._is_plenty(here, remaining - 1):
            remaining = None
        key = (here.at, here.place, room, remaining)
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = self._make_mask(here, remaining)
        return found

    def _is_plenty(self, here: Counted, left: int) -> bool:
        """Whether every ending fits, wherever a token leads."""
        return self._tokens.vocabulary.covers_bytes and left >= self._lengths.most_bytes

    def _make_mask(self, here: Counted, remaining: int | None) -> TokenMask:
        transitions = self._inside.transitions(here.at)
        counts = here.characters + counts_from(self._spelling, here.place, self._tokens)[transitions.tokens]
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

    def _whole(self, here: Counted, transitions: Transitions, remaining: int | None) -> list[TokenMask]:
        """The tokens that are some characters of a class that the automaton does not tell apart.

        Only between characters, and at the last digit of an escape, are so many bytes alike: each adds one character.
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
        """The good ones behind which an ending fits into what remains."""
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

    def _across(self, here: Counted) -> TokenMask:
        """The tokens that end the value before their own end."""
        assert self._crossing is not None and self._cut is not None
        if here.place not in self._cut_counts:
            self._cut_counts[here.place] = completed(self._spelling, here.place, self._cut)
        rows = self._crossing.accepted(here.at)
        counts = here.characters + self._cut_counts[here.place][rows]
        return mask_of_many(self._tokens.size, self._cut.ids[rows[self._lengths.all_allow(counts)]])


def _numbered(rows: Rows) -> Rows:
    return Rows(rows.letters, rows.starts, rows.ends, np.arange(len(rows)))


def counts_from(spelling: Spelling, place: int, tokens: Tokens) -> Ints:
    """By token, how many characters it completes from the place."""

    def count() -> Ints:
        rows = token_rows(tokens)
        found = np.zeros(tokens.size, dtype=np.int64)
        found[rows.ids] = completed(spelling, place, rows)
        return found

    return tokens.keep(("completed characters", id(spelling), place), count)


def prepare_counts(spelling: Spelling, tokens: Tokens) -> None:
    """From the start, and from between characters, where nearly every mask begins."""
    counts_from(spelling, spelling.start, tokens)
    for byte in spelling.closing[:1]:
        counts_from(spelling, int(spelling.next[spelling.start, byte]), tokens)


def completed(spelling: Spelling, place: int, rows: Rows) -> Ints:
    """How many characters each row completes from the place, as far as it stays inside the spelling."""
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


def _counted(state: MachineState) -> Counted:
    assert isinstance(state, Counted)
    return state
