"""Sets of characters as ranges of their codes: joined, inverted, spelled as a class of a regular expression."""

from __future__ import annotations

from typing import TypeAlias

LAST_CHARACTER = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
Ranges: TypeAlias = tuple[tuple[int, int], ...]  # inclusive, sorted, apart


DIGITS: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))


def normalised(ranges: list[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def complement(ranges: Ranges) -> Ranges:
    """Every character that is in none of the ranges; surrogates are no characters."""
    taken = normalised([*ranges, SURROGATES])
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in taken:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST_CHARACTER:
        gaps.append((start, LAST_CHARACTER))
    return tuple(gaps)


def _spell_character(code: int) -> str:
    character = chr(code)
    if character.isascii() and character.isalnum():
        return character
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if 0x20 <= code < 0x7F:
        return "\\" + character if character in "\\^$.|?*+()[]{}-&~" else character
    return f"\\x{code:02x}" if code < 0x100 else character


def spell_class(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _spell_character(ranges[0][0])
    if not ranges:
        return "[^\\x00-\U0010ffff]"
    inside = (
        _spell_character(low) if low == high else f"{_spell_character(low)}-{_spell_character(high)}"
        for low, high in ranges
    )
    return f"[{''.join(inside)}]"
