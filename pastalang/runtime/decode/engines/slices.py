"""Rows sorted by how many characters of a class they begin with: what is alike is then decided for all at once.

wholly of the class    one mask for every number of characters
leaving the class      grouped by the number of characters before, and by the byte that leaves
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from pastalang.runtime.decode.engines.table import CharacterClass
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.mask import frozen, mask_of
from pastalang.runtime.decode.rows import Flags, Rows
from pastalang.runtime.decode.trie import Ints

_FEW = 300  # tokens that are quicker to set one by one


@dataclass(frozen=True, eq=False)
class Slice:
    """`whole[k]` are the rows wholly of k characters, in `order[bounds[k] : bounds[k + 1]]` too; none for k = 0.

    `leaving` are the other rows, sorted by `keys[i]` = characters before * 256 + the byte that leaves, each key from
    `cuts[i]` to `cuts[i + 1]`; `places` is where in the letters the byte stands. Rows that leave with their first
    byte are among them only where that byte begins a character beyond ASCII that is in the class but not complete.
    """

    whole: tuple[TokenMask, ...]
    until: tuple[TokenMask, ...]  # the rows wholly of 1 to k characters
    order: Ints
    bounds: Ints
    keys: Ints
    cuts: Ints
    leaving: Ints
    places: Ints

    @property
    def most(self) -> int:
        """The most characters of the class that any row begins with."""
        return max(len(self.whole) - 1, int(self.keys[-1]) >> 8 if len(self.keys) else 0)


def slice_rows(rows: Rows, class_: CharacterClass, size: int) -> Slice:
    letters, (ascii_, beyond) = rows.letters, class_
    table = np.zeros(256, dtype=np.bool_)
    table[list(ascii_)] = True
    first = table.copy()
    first[0x80:] = beyond
    near = np.flatnonzero(first[rows.first])
    found = rows.take(near)
    outside: Flags = ~table[letters.flat]
    if beyond:
        outside &= ~letters.whole
    places = found.first_place(outside)
    characters = (letters.characters[places] - letters.characters[found.starts]).astype(np.int64)
    is_whole = places == found.ends
    order, counts = near[is_whole], characters[is_whole]
    by_count = np.argsort(counts.astype(np.uint16), kind="stable")
    order, counts = order[by_count], counts[by_count]
    bounds = np.searchsorted(counts, np.arange(int(counts.max(initial=0)) + 2))
    whole = tuple(
        scattered(size, rows.ids[order[bounds[count] : bounds[count + 1]]]) for count in range(len(bounds) - 1)
    )
    keys = characters[~is_whole] * 256 + letters.flat[places[~is_whole]]
    by_key = np.argsort(keys.astype(np.uint16), kind="stable")  # tokens are short
    keys = keys[by_key]
    cuts = np.flatnonzero(np.diff(keys, prepend=-1))
    return Slice(
        whole,
        tuple(accumulate(whole, lambda one, other: frozen(one | other))),
        order,
        bounds,
        keys[cuts],
        np.append(cuts, len(keys)),
        near[~is_whole][by_key],
        places[~is_whole][by_key],
    )


def scattered(size: int, tokens: Ints) -> TokenMask:
    """The mask of these tokens; quick where they are many."""
    if len(tokens) <= _FEW:
        return mask_of(size, tokens)
    flags = np.zeros((size + 31) // 32 * 32, dtype=np.bool_)
    flags[tokens] = True
    return frozen(np.packbits(flags, bitorder="little").view(np.uint32))
