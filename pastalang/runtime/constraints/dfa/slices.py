"""Rows sorted by how many characters of a class they begin with: what is alike is then decided for all at once.

wholly of the class    sorted by the number of characters
leaving the class      grouped by the number of characters before, and by the byte that leaves
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pastalang.runtime.constraints.dfa.table import CharacterClass, Table
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import mask_of_many
from pastalang.runtime.constraints.token_bytes import Flags, Rows, ranges
from pastalang.runtime.constraints.trie import Ints


@dataclass(frozen=True, eq=False)
class Slice:
    """Rows wholly of k characters are `order[bounds[k] : bounds[k + 1]]`, and their tokens likewise; none for k = 0.

    `leaving` are the other rows, sorted by `keys[i]` = characters before * 256 + the byte that leaves, each key from
    `cuts[i]` to `cuts[i + 1]`; `places` is where in the letters the byte stands. Rows that leave with their first
    byte are among them only where that byte begins a character beyond ASCII that is in the class but not complete.
    """

    size: int
    order: Ints
    tokens: Ints
    bounds: Ints
    keys: Ints
    before: Ints  # of every key the characters
    kinds: Ints  # and the kind of the byte
    cuts: Ints
    leaving: Ints
    places: Ints

    @property
    def reached(self) -> int:
        """One more than the most characters that a row is wholly of."""
        return len(self.bounds) - 1

    @property
    def most(self) -> int:
        """The most characters of the class that any row begins with."""
        return max(self.reached - 1, int(self.keys[-1]) >> 8 if len(self.keys) else 0)

    def leaves(self, table: Table, chain: Ints) -> tuple[Ints, Ints, Ints]:
        """The rows that leave where k characters lead to `chain[k]`, in strides: the row, the state behind the byte
        that leaves, and the place behind it."""
        within = int(np.searchsorted(self.keys, len(chain) << 8))
        behind = table.steps.take(chain.take(self.before[:within]) + self.kinds[:within])
        alive = np.flatnonzero(behind != table.dead)
        first, beyond = self.cuts.take(alive), self.cuts.take(alive + 1)
        at = ranges(first, beyond)
        return self.leaving.take(at), np.repeat(behind.take(alive), beyond - first), self.places.take(at) + 1

    def mask(self, good: Flags) -> TokenMask:
        """The rows wholly of so many characters; how many none of them has is left out."""
        good = good[: self.reached].copy()
        good[0] = True
        most = int(good.argmin()) or len(good)
        if not good[most:].any():
            return self._until(most)
        edges = np.flatnonzero(np.diff(good, prepend=False, append=False)).reshape(-1, 2)
        spans = [self.tokens[self.bounds[first] : self.bounds[beyond]] for first, beyond in edges.tolist()]
        return mask_of_many(self.size, np.concatenate(spans))

    def up_to(self, count: int) -> TokenMask:
        """The rows wholly of fewer characters."""
        return self._until(min(count, self.reached))

    def _until(self, count: int) -> TokenMask:
        if count not in self._known:
            self._known[count] = mask_of_many(self.size, self.tokens[: self.bounds[count]])
        return self._known[count]

    @cached_property
    def _known(self) -> dict[int, TokenMask]:
        return {}


def slice_rows(rows: Rows, class_: CharacterClass, kinds: bytes, size: int) -> Slice:
    """`kinds` are those of the bytes in the table that the rows are led through."""
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
