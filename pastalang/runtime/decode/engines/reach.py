"""Which tokens stay inside an automaton from a state, and where each leads: all rows at once, byte by byte.

Rows that begin with a long run of characters that the automaton does not tell apart are not followed at all: their
class was sorted before, and only where a run ends is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.decode.engines.bush import Bush
from pastalang.runtime.decode.engines.slices import Slice, scattered, slice_rows
from pastalang.runtime.decode.engines.table import DEAD, MIXED, CharacterClass, Table
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.mask import frozen, tokens_of
from pastalang.runtime.decode.rows import Bytes, Rows, ranges
from pastalang.runtime.decode.trie import Ints

States = NDArray[np.int32]
_FEW = 4_000  # rows that are followed without being sorted by classes
_ONE_BY_ONE = 12  # rows that are quicker to follow each by itself
_AT_ONCE = 1_000_000  # steps of all states through all rows that are taken beforehand


@dataclass(frozen=True, eq=False)
class Reach:
    """`tokens` and where each leads; and the rows wholly of k characters of a class, with where k of them lead."""

    tokens: Ints
    ends: States
    slices: tuple[tuple[Slice, States], ...]

    @cached_property
    def all_ends(self) -> NDArray[np.int64]:
        """Every state that is reached, once."""
        parts = [self.ends, *(chain[1 : slice.reached] for slice, chain in self.slices)]
        return np.flatnonzero(np.bincount(np.concatenate(parts)))

    def mask(self, size: int, fits: NDArray[np.bool_]) -> TokenMask:
        """The tokens that lead to a state that fits; `fits` has an entry for every state and one for `DEAD`."""
        found = scattered(size, self.tokens[fits[self.ends]])
        if not self.slices:
            return found
        first, *others = (slice.mask(fits[chain]) for slice, chain in self.slices)
        joined = found | first
        for other in others:
            np.bitwise_or(joined, other, out=joined)
        return frozen(joined)

    def leading_to(self, fits: NDArray[np.bool_], size: int) -> Ints:
        """The same tokens by their numbers; `size` is how many there are in all."""
        return tokens_of(self.mask(size, fits)) if self.slices else self.tokens[fits[self.ends]]


class Follower:
    """The rows that a table can take anything of, sorted by the classes of its states when they are asked for."""

    def __init__(self, table: Table, rows: Rows, size: int) -> None:
        self._table = table
        self._rows = rows.within(table.alphabet).compact()
        self._size = size
        self._first = np.searchsorted(self._rows.first, np.arange(257))
        self._slices: dict[CharacterClass, Slice] = {}
        self._known: dict[int, Reach] = {}
        self._every: States | None = None
        self._bush = Bush(self._rows) if len(self._rows) <= _FEW else None
        if self._bush is None:
            self._prepare()

    def _prepare(self) -> None:
        """Sorts the rows by every class that any state has, so that no mask has to."""
        for class_ in sorted({class_ for state in range(self._table.size) for class_ in self._table.classes(state)}):
            self._slice(class_)

    def reach(self, state: int) -> Reach:
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self._follow(state)
        return found

    def _follow(self, state: int) -> Reach:
        rows, table = self._rows, self._table
        if self._bush is not None:
            each = self._ends_of(state)
            alive = np.flatnonzero(each != DEAD)
            return Reach(rows.ids[alive], each[alive], ())
        row = table.rows[state]
        single = row != DEAD
        starts: list[tuple[Ints, States, Ints]] = []
        slices = []
        for class_ in table.classes(state):
            single[list(class_[0])] = False
            single[0x80:] &= not class_[1]
            slice = self._slice(class_)
            chain, is_mixed = self._chain(state, class_, slice.most)
            slices.append((slice, chain))
            starts += self._leaving(slice, chain, state, is_mixed)
        firsts = np.flatnonzero(single)
        alone = ranges(self._first[firsts], self._first[firsts + 1])
        starts.append((alone, row[rows.first[alone]], rows.starts[alone] + 1))
        at, start, begin = (np.concatenate(parts) for parts in zip(*starts, strict=True))
        every = self._walk(start, begin, rows.ends[at])
        alive = np.flatnonzero(every != DEAD)
        return Reach(rows.ids[at[alive]], every[alive], tuple(slices))

    def _ends_of(self, state: int) -> States:
        """Where each row leads; of all states at once where that is little."""
        assert self._bush is not None
        if self._every is None and self._bush.size * self._table.size <= _AT_ONCE:
            self._every = self._bush.follow(self._table.rows, np.arange(self._table.size, dtype=np.int32))
        if self._every is not None:
            found: States = self._every[state]
        else:
            found = self._bush.follow(self._table.rows, np.array([state], dtype=np.int32))[0]
        return found

    def _leaving(self, slice: Slice, chain: States, state: int, is_mixed: bool) -> list[tuple[Ints, States, Ints]]:
        """The rows that leave the class, the state behind the byte that leaves, and the place behind it."""
        known = len(chain)
        within = int(np.searchsorted(slice.keys, known << 8))
        keys = slice.keys[:within]
        behind = self._table.rows[chain[keys >> 8], keys & 0xFF]
        alive = np.flatnonzero(behind != DEAD)
        at = ranges(slice.cuts[alive], slice.cuts[alive + 1])
        counts = slice.cuts[alive + 1] - slice.cuts[alive]
        found = [(slice.leaving[at], np.repeat(behind[alive], counts), slice.places[at] + 1)]
        if is_mixed:
            whole = slice.order[slice.bounds[min(known, len(slice.bounds) - 1)] :]
            rest = np.concatenate([whole, slice.leaving[slice.cuts[within] :]])
            found.append((rest, np.full(len(rest), state, dtype=np.int32), self._rows.starts[rest]))
        return found

    def _chain(self, state: int, class_: CharacterClass, most: int) -> tuple[States, bool]:
        """Where 0, 1, 2 ... characters of the class lead; and whether it ends where they no longer lead alike."""
        after, chain = self._table.after(class_), [state]
        while len(chain) <= most:
            following = int(after[chain[-1]])
            if following in (DEAD, MIXED):
                return np.array(chain, dtype=np.int32), following == MIXED
            if following == chain[-1]:
                chain.extend([following] * (most + 1 - len(chain)))
            else:
                chain.append(following)
        return np.array(chain, dtype=np.int32), False

    def _slice(self, class_: CharacterClass) -> Slice:
        if class_ not in self._slices:
            self._slices[class_] = slice_rows(self._rows, class_, self._size)
        return self._slices[class_]

    def _walk(self, states: States, at: Ints, ends: Ints) -> States:
        return walk(self._table.rows, self._rows.letters.flat, states, at, ends)


def walk(rows: NDArray[np.int32], flat: Bytes, states: States, at: Ints, ends: Ints) -> States:
    """Where `flat[at:ends]` leads from each state."""
    found = states.copy()
    live = np.flatnonzero((at < ends) & (states != DEAD))
    here, place, end = states[live], at[live], ends[live]
    while len(live) > _ONE_BY_ONE:
        here = rows[here, flat[place]]
        found[live] = here
        place = place + 1
        going = (here != DEAD) & (place < end)
        live, here, place, end = live[going], here[going], place[going], end[going]
    for number, state, begin, beyond in zip(live.tolist(), here.tolist(), place.tolist(), end.tolist(), strict=True):
        found[number] = _walk_one(rows, flat[begin:beyond].tobytes(), state)
    return found


def _walk_one(rows: NDArray[np.int32], text: bytes, state: int) -> int:
    for byte in text:
        state = rows.item(state, byte)
        if state == DEAD:
            break
    return state
