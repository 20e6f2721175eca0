"""Make the machines of numbers and of strings with patterns.

Their automata are built once per type and shared by all vocabularies and seams. A string with several patterns
is recognised by the intersection of their automata.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache

from pastalang.program import types as t
from pastalang.program.regex import Chars, Node, RegexError, Repetition, parse_regex
from pastalang.runtime.constraints.dfa.bounded import BoundedMachine, LengthLimits
from pastalang.runtime.constraints.dfa.lazy_machine import LazyMachine
from pastalang.runtime.constraints.dfa.number import NumberAutomaton
from pastalang.runtime.constraints.dfa.pattern import PatternAutomaton
from pastalang.runtime.constraints.dfa.spelling import Spelling, spell_characters, spell_json
from pastalang.runtime.constraints.dfa.table import Automaton, Table, group_edges, tabulate
from pastalang.runtime.constraints.dfa.table_machine import TableMachine
from pastalang.runtime.constraints.guide import GuideError
from pastalang.runtime.constraints.seam import Seam

_KEPT = 256
_MAX_SEARCHED = 20_000  # states to search for a common ending: patterns that need more are refused
_MANY_STATES = 4_000  # takes a third of a second in a grammar; llguidance itself cannot enforce most of these steps


def number_machine(type: t.Integer | t.Number, seam: Seam) -> TableMachine | LazyMachine:
    return _machine(*_number(type), seam)


def number_table(type: t.Integer | t.Number) -> Table | None:
    """The table of a number; None if it has too many states. Steps that are not whole numbers may have more states."""
    _, table = _number(type)
    step = type.multiple_of
    return table if table is not None or step is None or step == int(step) else _large(type)


def pattern_machine(pattern: str, seam: Seam, *, quoted: bool) -> TableMachine | LazyMachine:
    return _machine(*_pattern(pattern, quoted), seam)


def string_machine(
    patterns: Sequence[str], seam: Seam, *, least: int, most: int | None, quoted: bool
) -> TableMachine | LazyMachine | BoundedMachine:
    """The machine of strings of `least` to `most` characters that match all of the patterns."""
    if len(patterns) == 1 and not least and most is None:
        return pattern_machine(patterns[0], seam, quoted=quoted)
    automaton, table = _intersection(tuple(patterns), quoted)
    if not least and most is None:
        return _machine(automaton, table, seam)
    if table is None:
        return _machine(*_limited(tuple(patterns), least, most, quoted), seam)
    return BoundedMachine(table, _lengths(tuple(patterns), least, most, quoted), spelling_of(quoted), seam)


def _parsed(pattern: str) -> Node:
    try:
        return parse_regex(pattern)
    except RegexError as problem:
        raise GuideError(f"the pattern /{pattern[:40]}/ cannot be enforced: {problem.message}") from problem


def _machine(automaton: Automaton, table: Table | None, seam: Seam) -> TableMachine | LazyMachine:
    return LazyMachine(automaton, seam) if table is None else TableMachine(table, seam)


@lru_cache(maxsize=_KEPT)
def _number(type: t.Integer | t.Number) -> tuple[Automaton, Table | None]:
    automaton = NumberAutomaton(type)
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT // 16)
def _large(type: t.Integer | t.Number) -> Table | None:
    return tabulate(_number(type)[0], _MANY_STATES)


@lru_cache(maxsize=_KEPT)
def _pattern(pattern: str, quoted: bool) -> tuple[Automaton, Table | None]:
    automaton = PatternAutomaton(_parsed(pattern), quoted=quoted)
    if automaton.is_empty:
        raise GuideError(f"nothing matches /{pattern}/")
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT)
def _intersection(patterns: tuple[str, ...], quoted: bool) -> tuple[Automaton, Table | None]:
    automaton = _intersect_patterns([_parsed(pattern) for pattern in patterns], quoted=quoted)
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT)
def _limited(patterns: tuple[str, ...], least: int, most: int | None, quoted: bool) -> tuple[Automaton, Table | None]:
    """The limits of length as one more pattern, for patterns whose own table would be too large."""
    any_characters = Repetition(Chars(((0, 0xD7FF), (0xE000, 0x10FFFF))), least, most)
    automaton = _intersect_patterns([*map(_parsed, patterns), any_characters], quoted=quoted)
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT)
def _lengths(patterns: tuple[str, ...], least: int, most: int | None, quoted: bool) -> LengthLimits:
    _, table = _intersection(patterns, quoted)
    assert table is not None
    return LengthLimits(table, spelling_of(quoted), least, most)


@lru_cache
def spelling_of(quoted: bool) -> Spelling:
    """The spelling of any characters in a value, to count them."""
    return spell_json(()) if quoted else spell_characters()


def forget() -> None:
    """Clear all caches, as in a new process."""
    for known in (_number, _large, _pattern, _intersection, _limited, _lengths):
        known.cache_clear()


def _intersect_patterns(nodes: Sequence[Node], *, quoted: bool) -> Automaton:
    automata = [PatternAutomaton(node, quoted=quoted) for node in nodes]
    if any(automaton.is_empty for automaton in automata):
        raise GuideError("nothing matches the pattern")
    return automata[0] if len(automata) == 1 else _IntersectionAutomaton(automata)


class _IntersectionAutomaton:
    """See `table.Automaton`. It only has states from which all automata reach a common ending."""

    def __init__(self, automata: Sequence[PatternAutomaton]) -> None:
        self._automata = tuple(automata)
        self.start: Hashable = tuple(automaton.start for automaton in automata)
        self._endings: dict[Hashable, bytes | None] = {}
        if self._find_ending(self.start) is None:
            raise GuideError("no string fits the pattern, the format and the limits of length together")

    def edges(self, state: Hashable) -> Mapping[int, Hashable]:
        return {
            byte: following
            for byte, following in self._steps(state).items()
            if self._find_ending(following) is not None
        }

    def ways(self, state: Hashable) -> Iterator[tuple[bytes, Hashable]]:
        return group_edges(self.edges(state))

    def accepts(self, state: Hashable) -> bool:
        assert isinstance(state, tuple)
        return all(automaton.accepts(part) for automaton, part in zip(self._automata, state, strict=True))

    def ending(self, state: Hashable) -> bytes:
        found = self._find_ending(state)
        assert found is not None
        return found

    def _steps(self, state: Hashable) -> dict[int, Hashable]:
        assert isinstance(state, tuple)
        ways = [automaton.edges(part) for automaton, part in zip(self._automata, state, strict=True)]
        shared = set(ways[0]).intersection(*ways[1:])
        return {byte: tuple(way[byte] for way in ways) for byte in sorted(shared)}

    def _find_ending(self, state: Hashable) -> bytes | None:
        """A search in breadth. It also stores the endings of all states on the way that it finds."""
        if state in self._endings:
            return self._endings[state]
        came: dict[Hashable, tuple[Hashable, int] | None] = {state: None}
        level = [state]
        while level:
            following_level: list[Hashable] = []
            for here in level:
                known = self._endings.get(here)
                if self.accepts(here) or known is not None:
                    return self._remember(here, b"" if self.accepts(here) else known or b"", came)
                if here in self._endings:
                    continue
                for byte, following in self._distinct(here):
                    if following not in came:
                        came[following] = (here, byte)
                        following_level.append(following)
            if len(came) > _MAX_SEARCHED:
                raise GuideError("the pattern, the format and the limits of length are too complex together")
            level = following_level
        for dead in came:
            self._endings[dead] = None
        return None

    def _distinct(self, state: Hashable) -> list[tuple[int, Hashable]]:
        found: dict[Hashable, int] = {}
        for byte, following in self._steps(state).items():
            found.setdefault(following, byte)
        return [(byte, following) for following, byte in found.items()]

    def _remember(self, here: Hashable, ending: bytes, came: dict[Hashable, tuple[Hashable, int] | None]) -> bytes:
        self._endings[here] = ending
        while (step := came[here]) is not None:
            here, ending = step[0], bytes((step[1],)) + ending
            self._endings[here] = ending
        return ending
