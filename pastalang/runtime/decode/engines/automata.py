"""The automata of plain types, made once per type and shared by all vocabularies, forms of holes and seams."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pastalang.program import types as t
from pastalang.program.regex import Chars, Node, RegexError, Repetition, parse_regex
from pastalang.runtime.decode.border import Border
from pastalang.runtime.decode.engines.automaton import AutomatonMachine
from pastalang.runtime.decode.engines.meet import meet_patterns
from pastalang.runtime.decode.engines.number import NumberAutomaton
from pastalang.runtime.decode.engines.pattern import PatternAutomaton
from pastalang.runtime.decode.engines.table import Automaton, Table, tabulate
from pastalang.runtime.decode.engines.tabled import TableMachine
from pastalang.runtime.decode.guide import GuideError

_KEPT = 256


def number_machine(type: t.Integer | t.Number, border: Border) -> TableMachine | AutomatonMachine:
    return _machine(*_number(type), border)


def number_table(type: t.Integer | t.Number) -> Table | None:
    """None where it has too many states to be written out."""
    return _number(type)[1]


def pattern_machine(pattern: str, border: Border, *, quoted: bool) -> TableMachine | AutomatonMachine:
    return _machine(*_pattern(pattern, quoted), border)


def string_machine(
    patterns: Sequence[str], border: Border, *, least: int, most: int | None, quoted: bool
) -> TableMachine | AutomatonMachine:
    """A string that matches all of the patterns, with so many characters."""
    if len(patterns) == 1 and not least and most is None:
        return pattern_machine(patterns[0], border, quoted=quoted)
    return _machine(*_meeting(tuple(patterns), least, most, quoted), border)


def _parsed(pattern: str) -> Node:
    try:
        return parse_regex(pattern)
    except RegexError as problem:
        raise GuideError(f"the pattern /{pattern[:40]}/ cannot be enforced: {problem.message}") from problem


def _machine(automaton: Automaton, table: Table | None, border: Border) -> TableMachine | AutomatonMachine:
    return AutomatonMachine(automaton, border) if table is None else TableMachine(table, border)


@lru_cache(maxsize=_KEPT)
def _number(type: t.Integer | t.Number) -> tuple[Automaton, Table | None]:
    automaton = NumberAutomaton(type)
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT)
def _pattern(pattern: str, quoted: bool) -> tuple[Automaton, Table | None]:
    automaton = PatternAutomaton(_parsed(pattern), quoted=quoted)
    if automaton.is_empty:
        raise GuideError(f"nothing matches /{pattern}/")
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT)
def _meeting(patterns: tuple[str, ...], least: int, most: int | None, quoted: bool) -> tuple[Automaton, Table | None]:
    nodes = [_parsed(pattern) for pattern in patterns]
    if least > 0 or most is not None:
        nodes.append(Repetition(Chars(((0, 0xD7FF), (0xE000, 0x10FFFF))), least, most))
    automaton = meet_patterns(nodes, quoted=quoted)
    return automaton, tabulate(automaton)


def forget() -> None:
    """Makes everything anew from here on, as in a new process."""
    for known in (_number, _pattern, _meeting):
        known.cache_clear()
