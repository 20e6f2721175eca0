"""The bytes of all tokens as rows of one flat array, so that a few array operations process all tokens.

token_rows  every token
seam_rows   every way to cut a token so that its part after the cut agrees with the text after the value
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import mask_of_many
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Letters:
    """The bytes of all rows, one row after the other, and one more byte. All are ASCII if the other fields are None."""

    flat: Bytes
    whole: Flags | None = None  # for bytes from 0x80: whether the character is complete in its row
    characters: NDArray[np.int32] | None = None  # the number of characters that begin before each position

    def between(self, first: Ints, last: Ints) -> Ints:
        """The number of characters that begin between each pair of positions."""
        if self.characters is None:
            return last - first
        return (self.characters[last] - self.characters[first]).astype(np.int64)

    def outside(self, ascii_: bytes, *, beyond: bool) -> Flags:
        """Flags bytes outside a class: these ASCII bytes and, with `beyond`, all complete characters beyond ASCII."""
        kept = bytearray(b"\x01" * 256)
        for byte in ascii_:
            kept[byte] = 0
        found = np.frombuffer(bytearray(self._raw.translate(kept)), dtype=np.bool_)
        if beyond and self.whole is not None:
            found &= ~self.whole
        return found

    def translated(self, table: bytes) -> Bytes:
        return np.frombuffer(self._raw.translate(table), dtype=np.uint8)

    @cached_property
    def _raw(self) -> bytes:
        return self.flat.tobytes()


@dataclass(frozen=True, eq=False)
class Rows:
    """Row r is `letters.flat[starts[r] : ends[r]]`, ascending and never empty; `ids[r]` is its token."""

    letters: Letters
    starts: Ints
    ends: Ints
    ids: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def first(self) -> Bytes:
        return self.letters.flat[self.starts]

    def take(self, rows: Ints | Flags) -> Rows:
        return Rows(self.letters, self.starts[rows], self.ends[rows], self.ids[rows])

    @cached_property
    def _held(self) -> NDArray[np.uint64]:
        """The set of bytes of each row, as four words of 64 bits."""
        lengths = self.ends - self.starts
        flat = self.letters.flat[ranges(self.starts, self.ends)]
        bits, word = np.uint64(1) << (flat & 63).astype(np.uint64), flat >> 6
        found = np.zeros((4, len(self)), dtype=np.uint64)
        for part in range(4 if len(self) else 0):
            here = np.where(word == part, bits, np.uint64(0))
            found[part] = np.bitwise_or.reduceat(here, np.cumsum(lengths) - lengths)
        return found

    def compact(self) -> Rows:
        """The same rows with a copy of their bytes, if they are less than half of all bytes."""
        lengths = self.ends - self.starts
        if lengths.sum() * 2 > len(self.letters.flat):
            return self
        places = np.append(ranges(self.starts, self.ends), len(self.letters.flat) - 1)
        ends, flat = np.cumsum(lengths), self.letters.flat[places]
        letters = Letters(flat)
        if self.letters.whole is not None and int(flat.max()) >= 0x80:
            letters = Letters(flat, self.letters.whole[places], _begun(flat))
        return Rows(letters, ends - lengths, ends, self.ids)

    def within(self, bytes_: Iterable[int]) -> Rows:
        """The rows that contain only these bytes."""
        allowed = [0, 0, 0, 0]
        for byte in bytes_:
            allowed[byte >> 6] |= 1 << (byte & 63)
        others = np.zeros(len(self), dtype=np.uint64)
        for word, bits in enumerate(allowed):
            others |= self._held[word] & ~np.uint64(bits)
        return self.take(np.flatnonzero(others == 0))

    def first_place(self, where: Flags) -> Ints:
        """The first flagged position of each row; its end if no byte is flagged."""
        places = np.append(np.flatnonzero(where), len(where))
        before = np.zeros(len(where), dtype=np.int32)
        np.cumsum(where[:-1], out=before[1:])
        found: Ints = np.minimum(places[before[self.starts]], self.ends)
        return found


def ranges(starts: Ints, ends: Ints) -> Ints:
    """The concatenation of `arange(start, end)` for all pairs."""
    counts = ends - starts
    beyond = np.cumsum(counts)
    found: Ints = np.repeat(starts - beyond + counts, counts)
    found += np.arange(len(found))
    return found


def token_rows(tokens: Tokens) -> Rows:
    """The rows of all tokens, in the order of the trie."""
    return tokens.cached("rows", lambda: _all_rows(tokens))


def _all_rows(tokens: Tokens) -> Rows:
    spelling, order = tokens.vocabulary.spelling, tokens.trie.order
    texts = [spelling[token] or b"" for token in order.tolist()]
    flat = np.frombuffer(b"".join([*texts, b"\x00"]), dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    starts = np.concatenate([np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1]])
    return Rows(Letters(flat, _whole(flat, starts, ends), _begun(flat)), starts, ends, order)


def _begun(flat: Bytes) -> NDArray[np.int32]:
    """The number of characters that begin before each position."""
    found = np.zeros(len(flat), dtype=np.int32)
    np.cumsum((flat[:-1] & 0xC0) != 0x80, out=found[1:])
    return found


_LENGTHS = np.zeros(256, dtype=np.int64)  # of the character that a first byte begins; 0 for ASCII and other bytes
_LENGTHS[0xC2:0xE0], _LENGTHS[0xE0:0xF0], _LENGTHS[0xF0:0xF5] = 2, 3, 4
_LOWEST, _HIGHEST = np.full(256, 0x80), np.full(256, 0xBF)  # of the byte after it
_LOWEST[0xE0], _LOWEST[0xF0], _HIGHEST[0xED], _HIGHEST[0xF4] = 0xA0, 0x90, 0x9F, 0x8F


def _whole(flat: Bytes, starts: Ints, ends: Ints) -> Flags:
    """The bytes beyond ASCII that belong to a character that is complete within its row."""
    found = np.zeros(len(flat), dtype=np.bool_)
    at = np.flatnonzero(_LENGTHS[flat])
    length, lead = _LENGTHS[flat[at]], flat[at]
    end = ends[np.searchsorted(ends, at, side="right")] if len(at) else at
    good = at + length <= end
    padded = np.append(flat, np.zeros(3, dtype=np.uint8))
    good &= (padded[at + 1] >= _LOWEST[lead]) & (padded[at + 1] <= _HIGHEST[lead])
    for further in (2, 3):
        good &= (length <= further) | ((padded[at + further] & 0xC0) == 0x80)
    for offset in range(4):
        found[(at + offset)[good & (length > offset)]] = True
    return found


def seam_rows(tokens: Tokens, follow: bytes) -> Rows:
    """The non-empty parts of tokens before a cut after which the rest of the token agrees with `follow`."""
    return tokens.cached_recent(("crossing", follow), lambda: _cut(token_rows(tokens), follow))


def _cut(rows: Rows, follow: bytes) -> Rows:
    flat = rows.letters.flat
    cuts = np.flatnonzero(flat[:-1] == follow[0]) if follow else np.zeros(0, dtype=np.int64)
    row = np.searchsorted(rows.ends, cuts, side="right")
    inside = cuts > rows.starts[row]
    cuts, row = cuts[inside], row[inside]
    for offset in range(1, len(follow)):
        over = cuts + offset >= rows.ends[row]
        if over.all():
            break
        agrees = over | (flat[np.minimum(cuts + offset, len(flat) - 1)] == follow[offset])
        cuts, row = cuts[agrees], row[agrees]
    return Rows(rows.letters, rows.starts[row], cuts, rows.ids[row])


def tokens_with_more_digits(tokens: Tokens, most: int) -> TokenMask:
    """The tokens that begin with more than `most` digits."""
    ids, digits = leading_digits(tokens)
    return tokens.cached(("digits", most), lambda: mask_of_many(tokens.size, ids[digits > most]))


def leading_digits(tokens: Tokens) -> tuple[Ints, Ints]:
    """The tokens that begin with digits, and the number of those digits."""
    return tokens.cached("begun with digits", lambda: _leading_digits(token_rows(tokens)))


def _leading_digits(rows: Rows) -> tuple[Ints, Ints]:
    begun = rows.take(np.flatnonzero((rows.first >= 0x30) & (rows.first <= 0x39)))
    outside = rows.letters.outside(b"0123456789", beyond=False)
    return begun.ids, begun.first_place(outside) - begun.starts
