"""A source text as a quotation spells it: with JSON escapes between quotes, and where a quotation may begin and end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pastalang.program.types import QuoteUnit
from pastalang.runtime.constraints.trie import Ints
from pastalang.values.quotes import BORDER, places_of

NOTHING = -1  # marks the end of a source, and the borders in it, among its bytes
MAX_SOURCES = 16  # sources that are cached
_BORDER_BYTE = 0xFF  # no byte of UTF-8


@dataclass(frozen=True, eq=False)
class SpelledSource:
    """A source as the value spells it. Character k begins at byte `cuts[k]` of `spelled`; the last cut is the end.

    A span begins at a byte of `begins` and ends at one of `ends`. `letters` are these bytes, with markers for borders,
    for white space before them, and for the end. `which[p]` is the character that begins at byte p.
    """

    spelled: bytes
    cuts: Ints
    begins: Ints
    ends: Ints
    letters: NDArray[np.int64]
    is_cut: NDArray[np.bool_]
    is_end: NDArray[np.bool_]

    @cached_property
    def which(self) -> Ints:
        found: Ints = np.cumsum(self.is_cut)
        found -= 1
        return found

    @cached_property
    def missing(self) -> Ints:
        """The bytes from every place to the next end; none follows the last."""
        places = np.arange(len(self.spelled) + 1)
        found: Ints = self.ends[np.minimum(np.searchsorted(self.ends, places), len(self.ends) - 1)] - places
        return found

    @cached_property
    def longest(self) -> int:
        """The most bytes from any place to the next end."""
        return int(np.diff(self.ends, prepend=0).max(initial=0))


@lru_cache(maxsize=MAX_SOURCES)
def spell_source(text: str, at: QuoteUnit, *, quoted: bool) -> SpelledSource:
    """What follows the last end cannot be quoted and is left out."""
    places = places_of(text, at)
    text = text[: places.ends[-1]] if places.ends else ""
    spelling = {
        character: (json.dumps(character, ensure_ascii=False)[1:-1] if quoted else character).encode()
        for character in set(text) - {BORDER}
    }
    spelling[BORDER] = bytes([_BORDER_BYTE])
    parts = [spelling[character] for character in text]
    cuts = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)), out=cuts[1:])
    spelled = b"".join(parts)
    letters = np.append(np.frombuffer(spelled, dtype=np.uint8), NOTHING).astype(np.int64)
    begins, ends = cuts[list(places.begins)], cuts[list(places.ends)]
    for border in np.flatnonzero(letters == _BORDER_BYTE).tolist():
        letters[int(ends[: np.searchsorted(ends, border, side="right")].max(initial=0)) : border + 1] = NOTHING
    is_cut, is_end = np.zeros((2, len(spelled) + 1), dtype=np.bool_)
    is_cut[cuts] = True
    is_end[ends] = True
    return SpelledSource(spelled, cuts, begins, ends, letters, is_cut, is_end)
