"""The tree of a regular expression: what it is made of, how long its matches are, how every engine spells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pastalang.program.character_class import Ranges, spell_class


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
