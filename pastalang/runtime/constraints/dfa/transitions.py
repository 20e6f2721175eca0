"""The tokens that stay inside an automaton from a state, and the state that each of them reaches.

All tokens run through the table at the same time, byte by byte. Few tokens form a small trie, so that common beginnings
run once. Many tokens are grouped by the number of characters of a class that they begin with, if the automaton does not
distinguish the characters of the class:

    only the class     sorted by the number of characters; they need not run through the table
    leaving the class  grouped by the number of characters before, and by the byte that leaves
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.dfa.table import DEAD, MIXED, CharacterClass, Table
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import frozen, mask_of_many, tokens_of
from pastalang.runtime.constraints.token_bytes import Bytes, Flags, Rows, ranges
from pastalang.runtime.constraints.trie import Ints

States = NDArray[np.int32]
_FEW = 4_000  # rows: up to here they form a small trie
_SIDE_BY_SIDE = 300  # rows: up to here it is quicker to lay out all their bytes than to gather them step by step
_ACROSS = 12  # bytes to lay out at a time
_ONE_BY_ONE = 8  # rows: up to here it is quicker to run each by itself
_AT_ONCE = 1_000_000  # steps: up to here all states run through all rows in advance
_LAID_OUT = np.arange(_ACROSS, dtype=np.int64)[:, None]


@dataclass(frozen=True, eq=False)
class Transitions:
    """`tokens` and the state that each reaches. `slices`: rows of k characters of a class, and the state after k."""

    tokens: Ints
    ends: Ints | States
    slices: tuple[tuple[Slice, Ints], ...]

    @cached_property
    def all_ends(self) -> Ints:
        """The states that some token reaches, without duplicates."""
        return np.flatnonzero(np.bincount(np.concatenate(self._ends)))

    @property
    def _ends(self) -> list[Ints | States]:
        return [self.ends, *(chain[1 : slice.reached] for slice, chain in self.slices)]

    def most(self, of: Ints) -> int:
        """The maximum of `of`, which has an entry for every state, over all states that are reached."""
        return max([int(of.take(ends).max(initial=0)) for ends in self._ends])

    def mask(self, size: int, fits: NDArray[np.bool_] | None) -> TokenMask:
        """The tokens that reach a state that fits: `fits` has an entry for every state and for `DEAD`. None: all."""
        found = mask_of_many(size, self.tokens if fits is None else self.tokens[fits[self.ends]])
        if not self.slices:
            return found
        joined: TokenMask | None = None
        for slice, chain in self.slices:
            part = slice.up_to(len(chain)) if fits is None else slice.mask(fits[chain])
            joined = found | part if joined is None else np.bitwise_or(joined, part, out=joined)
        assert joined is not None
        return frozen(joined)

    def leading_to(self, fits: NDArray[np.bool_], size: int) -> Ints:
        """The ids of the tokens that reach a state that fits; `size` is the size of the vocabulary."""
        return tokens_of(self.mask(size, fits)) if self.slices else self.tokens[fits[self.ends]]


class Follower:
    """Runs rows through a table. Rows are grouped by the classes of a state when they are first needed."""

    def __init__(self, table: Table, rows: Rows, size: int) -> None:
        self._table = table
        self._rows = rows.within(table.alphabet).compact()
        self._size = size
        self._kinds = self._rows.letters.flat
        self._first = np.searchsorted(self._rows.first, np.arange(257))
        self._slices: dict[CharacterClass, Slice] = {}
        self._alone: dict[bytes, tuple[Ints, Ints, Ints]] = {}
        self._known: dict[int, Transitions] = {}
        self._every: States | None = None
        self._small_trie = _SmallTrie(self._rows) if len(self._rows) <= _FEW else None
        if self._small_trie is None:
            self._prepare()

    def _prepare(self) -> None:
        """Group the rows by the classes of all states, so that no mask has to."""
        for class_ in sorted({class_ for state in range(self._table.size) for class_ in self._table.classes(state)}):
            self._slice(class_)
            self._table.after(class_)
        self._kinds = self._rows.letters.translated(self._table.kinds)
        assert len(self._table.steps)

    def transitions(self, state: int) -> Transitions:
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self._follow(state)
        return found

    def accepted(self, state: int) -> Ints:
        """The tokens of the rows that reach an accepting state."""
        if self._small_trie is None:
            return self.transitions(state).leading_to(self._table.accepting, self._size)
        return self._rows.ids[self._table.accepting[self._ends_of(state)]]

    def _follow(self, state: int) -> Transitions:
        rows, table = self._rows, self._table
        if self._small_trie is not None:
            each = self._ends_of(state)
            alive = np.flatnonzero(each != DEAD)
            return Transitions(rows.ids.take(alive), each.take(alive), ())
        alone, kind, place = self._beginning_with(table.singles(state))
        starts = [(alone, table.steps.take(kind + state * table.stride), place)]
        slices = []
        for class_ in table.classes(state):
            slice = self._slice(class_)
            chain, is_mixed = self._chain(state, class_, slice.most)
            slices.append((slice, chain))
            starts.append(slice.leaves(table, chain * table.stride))
            if is_mixed:
                starts.append(self._mixed(slice, len(chain), state))
        at, start, begin = starts[0] if len(starts) == 1 else map(np.concatenate, zip(*starts, strict=True))
        every = _run_rows(table, self._kinds, start, begin, rows.ends.take(at))
        alive = np.flatnonzero(every != table.dead)
        return Transitions(rows.ids.take(at.take(alive)), every.take(alive) // table.stride, tuple(slices))

    def _beginning_with(self, firsts: bytes) -> tuple[Ints, Ints, Ints]:
        """The rows that begin with one of these bytes, the kind of that byte, and the position after it."""
        found = self._alone.get(firsts)
        if found is None:
            bytes_ = np.frombuffer(firsts, dtype=np.uint8).astype(np.int64)
            at = ranges(self._first[bytes_], self._first[bytes_ + 1])
            found = at, self._kinds[self._rows.starts[at]].astype(np.int64), self._rows.starts[at] + 1
            self._alone[firsts] = found
        return found

    def _ends_of(self, state: int) -> States:
        """The state that each row reaches; computed for all states at once if that is cheap."""
        assert self._small_trie is not None
        if self._every is None and self._small_trie.size * self._table.size <= _AT_ONCE:
            self._every = self._small_trie.follow(self._table.rows, np.arange(self._table.size, dtype=np.int32))
        if self._every is not None:
            found: States = self._every[state]
        else:
            found = self._small_trie.follow(self._table.rows, np.array([state], dtype=np.int32))[0]
        return found

    def _mixed(self, slice: Slice, known: int, state: int) -> tuple[Ints, Ints, Ints]:
        """The rows with more characters than the class leads to one state for; each runs from its beginning."""
        within = int(np.searchsorted(slice.keys, known << 8))
        whole = slice.order[slice.bounds[min(known, slice.reached)] :]
        rest = np.concatenate([whole, slice.leaving[slice.cuts[within] :]])
        return rest, np.full(len(rest), state * self._table.stride, dtype=np.int64), self._rows.starts[rest]

    def _chain(self, state: int, class_: CharacterClass, most: int) -> tuple[Ints, bool]:
        """The states after 0, 1, 2 ... characters of the class, and whether it ends because of `MIXED`."""
        after, chain, is_mixed = self._table.after(class_), [state], False
        while len(chain) <= most:
            following = after[chain[-1]]
            if following in (DEAD, MIXED):
                is_mixed = following == MIXED
                break
            if following == chain[-1]:
                chain.extend([following] * (most + 1 - len(chain)))
            else:
                chain.append(following)
        return np.array(chain, dtype=np.int64), is_mixed

    def _slice(self, class_: CharacterClass) -> Slice:
        if class_ not in self._slices:
            self._slices[class_] = _slice_rows(self._rows, class_, self._table.kinds, self._size)
        return self._slices[class_]


def _run_rows(table: Table, kinds: Bytes, states: Ints, at: Ints, ends: Ints) -> Ints:
    """The state after `kinds[at:ends]`, from each state; all states are multiplied by the stride."""
    steps, dead = table.steps, table.dead
    found, live = states.copy(), np.arange(len(states))
    here = states
    while True:
        going = np.flatnonzero((here != dead) & (at < ends))
        live, here, at, ends = live.take(going), here.take(going), at.take(going), ends.take(going)
        if len(live) <= _ONE_BY_ONE:
            for row, state, begin, end in zip(*map(np.ndarray.tolist, (live, here, at, ends)), strict=True):
                found[row] = _run_row(steps, kinds[begin:end].tobytes(), state)
            return found
        if len(live) > _SIDE_BY_SIDE:
            here = steps.take(here + kinds.take(at))
            at = at + 1
        else:
            left = ends - at
            across = _LAID_OUT[: int(left.max())]
            letters = kinds.take(at + across, mode="clip").astype(np.int64)
            letters[across >= left] = table.stride - 1
            for column in letters:
                here = steps.take(here + column)
            at = at + _ACROSS
        found[live] = here


def _run_row(steps: Ints, kinds: bytes, state: int) -> int:
    for kind in kinds:
        state = steps.item(state + kind)
    return state


@dataclass(frozen=True, eq=False)
class Slice:
    """Rows grouped by the number of characters of a class that they begin with.

    The rows of exactly k such characters are `order[bounds[k] : bounds[k + 1]]`, and likewise their `tokens`; there are
    none for k = 0. `leaving` are all other rows. They are sorted by `keys[i]` = 256 * characters before + the byte that
    leaves; the rows of a key are `cuts[i]` to `cuts[i + 1]`, and `places` are the positions of the bytes. A row that
    leaves with its first byte is only included if that byte begins a character of the class that is not complete.
    """

    size: int
    order: Ints
    tokens: Ints
    bounds: Ints
    keys: Ints
    before: Ints  # for every key: the characters before
    kinds: Ints  # and the kind of the byte
    cuts: Ints
    leaving: Ints
    places: Ints

    @property
    def reached(self) -> int:
        """One more than the most characters of a row that consists of the class only."""
        return len(self.bounds) - 1

    @property
    def most(self) -> int:
        """The most characters of the class that any row begins with."""
        return max(self.reached - 1, int(self.keys[-1]) >> 8 if len(self.keys) else 0)

    def leaves(self, table: Table, chain: Ints) -> tuple[Ints, Ints, Ints]:
        """The rows that leave the class: the row, the state after the byte that leaves, and the position after it.

        `chain[k]` is the state after k characters, multiplied by the stride.
        """
        within = int(np.searchsorted(self.keys, len(chain) << 8))
        states = table.steps.take(chain.take(self.before[:within]) + self.kinds[:within])
        alive = np.flatnonzero(states != table.dead)
        first, beyond = self.cuts.take(alive), self.cuts.take(alive + 1)
        at = ranges(first, beyond)
        return self.leaving.take(at), np.repeat(states.take(alive), beyond - first), self.places.take(at) + 1

    def mask(self, good: Flags) -> TokenMask:
        """The tokens of k characters for every k with `good[k]`."""
        good = good[: self.reached].copy()
        good[0] = True
        most = int(good.argmin()) or len(good)
        if not good[most:].any():
            return self._until(most)
        edges = np.flatnonzero(np.diff(good, prepend=False, append=False)).reshape(-1, 2)
        spans = [self.tokens[self.bounds[first] : self.bounds[beyond]] for first, beyond in edges.tolist()]
        return mask_of_many(self.size, np.concatenate(spans))

    def up_to(self, count: int) -> TokenMask:
        """The tokens of fewer than `count` characters."""
        return self._until(min(count, self.reached))

    def _until(self, count: int) -> TokenMask:
        if count not in self._known:
            self._known[count] = mask_of_many(self.size, self.tokens[: self.bounds[count]])
        return self._known[count]

    @cached_property
    def _known(self) -> dict[int, TokenMask]:
        return {}


def _slice_rows(rows: Rows, class_: CharacterClass, kinds: bytes, size: int) -> Slice:
    """Group the rows by a class. `kinds` are the kinds of bytes of the table."""
    letters, (ascii_, beyond) = rows.letters, class_
    first = np.zeros(256, dtype=np.bool_)
    first[list(ascii_)] = True
    first[0x80:] = beyond
    near = np.flatnonzero(first[rows.first])
    found = rows.take(near)
    places = found.first_place(letters.outside(ascii_, beyond=beyond))
    characters = letters.between(found.starts, places)
    is_whole = places == found.ends
    order, counts = near[is_whole], characters[is_whole]
    by_count = np.argsort(counts.astype(np.uint16), kind="stable")
    order = order[by_count]
    bounds = np.zeros(int(counts.max(initial=0)) + 2, dtype=np.int64)
    np.cumsum(np.bincount(counts, minlength=len(bounds) - 1), out=bounds[1:])
    leaves = np.flatnonzero(~is_whole)
    places = places[leaves]
    keys = characters[leaves] * 256 + letters.flat[places]
    by_key = np.argsort(keys.astype(np.uint16), kind="stable")  # tokens are short
    keys = keys[by_key]
    cuts = np.flatnonzero(np.diff(keys, prepend=-1))
    return Slice(
        size,
        order,
        rows.ids[order],
        bounds,
        keys[cuts],
        keys[cuts] >> 8,
        np.frombuffer(kinds, dtype=np.uint8)[keys[cuts] & 0xFF].astype(np.int64),
        np.append(cuts, len(keys)),
        near[leaves][by_key],
        places[by_key],
    )


class _SmallTrie:
    """A trie of rows. It only joins neighbours: rows are sorted, so most common beginnings are shared."""

    def __init__(self, rows: Rows) -> None:
        self._levels: list[tuple[Ints, Bytes]] = []  # for each node its parent in the level above, and its byte
        self._node = np.zeros(len(rows), dtype=np.int64)  # the node where each row ends, counted over all levels
        flat, lengths = rows.letters.flat, rows.ends - rows.starts
        here = np.arange(len(rows))
        above, base, depth = np.zeros(len(rows), dtype=np.int64), 0, 0
        while len(here):
            byte = flat[rows.starts[here] + depth]
            fresh = np.ones(len(here), dtype=np.bool_)
            fresh[1:] = (above[1:] != above[:-1]) | (byte[1:] != byte[:-1])
            self._levels.append((above[fresh], byte[fresh]))
            above = np.cumsum(fresh) - 1
            depth += 1
            is_end = lengths[here] == depth
            self._node[here[is_end]] = base + above[is_end]
            base += len(self._levels[-1][1])
            here, above = here[~is_end], above[~is_end]
        self.size = base

    def follow(self, table: NDArray[np.int32], states: NDArray[np.int32]) -> NDArray[np.int32]:
        """(states, rows): the state that each row reaches from each of these states."""
        found = np.empty((len(states), self.size), dtype=np.int32)
        here, base = states[:, None], 0
        for parents, byte in self._levels:
            here = table[here[:, parents], byte]
            found[:, base : base + len(byte)] = here
            base += len(byte)
        return found[:, self._node]
