"""The tree of a regular expression: character ranges, the lengths and texts that it matches, and how it is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

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


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of these ranges."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    arms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    item: Node
    minimum: int
    maximum: int | None


Node: TypeAlias = Chars | Sequence | Choice | Repetition


@dataclass(frozen=True, slots=True)
class Lengths:
    """The shortest and the longest text that matches, in characters; `longest` None: no bound."""

    shortest: int
    longest: int | None


def lengths(node: Node) -> Lengths | None:
    """How long a match can be; None: nothing matches at all."""
    match node:
        case Chars(ranges):
            return Lengths(1, 1) if ranges else None
        case Sequence(items):
            return _lengths_in_a_row([lengths(item) for item in items])
        case Choice(arms):
            return _widest([found for arm in arms if (found := lengths(arm)) is not None])
        case Repetition(item, minimum, maximum):
            return _repeated(lengths(item), minimum, maximum)


def characters(node: Node) -> tuple[Ranges, ...]:
    """The ranges of every place of the expression."""
    match node:
        case Chars(ranges):
            return (ranges,)
        case Sequence(items):
            return tuple(ranges for item in items for ranges in characters(item))
        case Choice(arms):
            return tuple(ranges for arm in arms for ranges in characters(arm))
        case Repetition(item):
            return characters(item)


def count_states(node: Node) -> int:
    match node:
        case Chars():
            return 1
        case Sequence(items):
            return sum(map(count_states, items))
        case Choice(arms):
            return sum(map(count_states, arms))
        case Repetition(item, minimum, maximum):
            return count_states(item) * max(1, minimum, maximum or 0)


def spell(node: Node) -> str:
    """The same language as a pattern of characters, classes, `(?:...)`, `|` and `{m,n}` alone."""
    match node:
        case Chars(ranges):
            return spell_class(ranges)
        case Sequence(items):
            return "".join(f"(?:{spell(item)})" if isinstance(item, Choice) else spell(item) for item in items)
        case Choice(arms):
            return "|".join(map(spell, arms))
        case Repetition(item, minimum, maximum):
            single = spell(item) if isinstance(item, Chars) else f"(?:{spell(item)})"
            return single + _spell_count(minimum, maximum)


# ── lengths ──────────────────────────────────────────────────────────────────────────────────────────────


def _lengths_in_a_row(parts: list[Lengths | None]) -> Lengths | None:
    shortest, longest = 0, 0
    unbounded = False
    for part in parts:
        if part is None:
            return None
        shortest += part.shortest
        unbounded = unbounded or part.longest is None
        longest += part.longest or 0
    return Lengths(shortest, None if unbounded else longest)


def _widest(parts: list[Lengths]) -> Lengths | None:
    if not parts:
        return None
    longest = [part.longest for part in parts]
    return Lengths(
        min(part.shortest for part in parts),
        None if any(length is None for length in longest) else max(length or 0 for length in longest),
    )


def _repeated(item: Lengths | None, minimum: int, maximum: int | None) -> Lengths | None:
    if item is None:
        return Lengths(0, 0) if minimum == 0 else None
    if item.longest == 0:
        return Lengths(0, 0)
    longest = None if maximum is None or item.longest is None else item.longest * maximum
    return Lengths(item.shortest * minimum, 0 if maximum == 0 else longest)


# ── spelling ─────────────────────────────────────────────────────────────────────────────────────────────


def _spell_count(minimum: int, maximum: int | None) -> str:
    match (minimum, maximum):
        case (0, None):
            return "*"
        case (1, None):
            return "+"
        case (0, 1):
            return "?"
        case (low, None):
            return f"{{{low},}}"
        case (low, high):
            return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def texts_of(node: Node, *, fewer_than: int) -> frozenset[str] | None:
    """All texts that match; None if there are not fewer than `fewer_than`."""
    if lengths(node) is None:
        return frozenset()
    try:
        found = _texts(node, fewer_than)
    except _Many:
        return None
    return frozenset(found) if len(found) < fewer_than else None


class _Many(Exception):
    """Nothing that could follow makes them fewer: an expression that matches nothing is sorted out before."""


def _texts(node: Node, limit: int) -> set[str]:
    match node:
        case Chars(ranges):
            if sum(last - first + 1 for first, last in ranges) >= limit:
                raise _Many
            return {chr(code) for first, last in ranges for code in range(first, last + 1)}
        case Sequence(items):
            found = {""}
            for item in items:
                following = _texts(item, limit)
                found = _few((left + right for left in found for right in following), limit)
            return found
        case Choice(arms):
            return _few((text for arm in arms if lengths(arm) for text in _texts(arm, limit)), limit)
        case Repetition(item, minimum, maximum):
            return _repeated_texts(item, minimum, maximum, limit)
        case _:
            assert_never(node)


def _repeated_texts(item: Node, minimum: int, maximum: int | None, limit: int) -> set[str]:
    """Nothing is added any more once a repetition brings no new text."""
    once = _texts(item, limit) if lengths(item) and maximum != 0 else {""}
    if len(once) == 1:
        return _again_and_again(min(once), minimum, maximum, limit)
    last = {""}
    for _ in range(minimum):
        last = _few((left + right for left in last for right in once), limit)
    found = set(last)
    count = minimum
    while last and (maximum is None or count < maximum):
        last = {left + right for left in last for right in once} - found
        found = _few((*found, *last), limit)
        count += 1
    return found


def _again_and_again(text: str, minimum: int, maximum: int | None, limit: int) -> set[str]:
    if not text:
        return {""}
    if maximum is None or maximum - minimum + 1 >= limit:
        raise _Many
    return {text * count for count in range(minimum, maximum + 1)}


def _few(texts: Iterable[str], limit: int) -> set[str]:
    found: set[str] = set()
    for text in texts:
        found.add(text)
        if len(found) >= limit:
            raise _Many
    return found
