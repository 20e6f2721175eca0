"""The automata of plain types, made once per type and shared by all vocabularies, forms of holes and seams."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pastalang.program import types as t
from pastalang.program.regex import Chars, Node, RegexError, Repetition, parse_regex
from pastalang.runtime.constraints.dfa.automaton import AutomatonMachine
from pastalang.runtime.constraints.dfa.characters import Spelling, spell_characters, spell_json
from pastalang.runtime.constraints.dfa.counted import CountedMachine
from pastalang.runtime.constraints.dfa.lengths import Lengths
from pastalang.runtime.constraints.dfa.meet import meet_patterns
from pastalang.runtime.constraints.dfa.number import NumberAutomaton
from pastalang.runtime.constraints.dfa.pattern import PatternAutomaton
from pastalang.runtime.constraints.dfa.table import Automaton, Table, tabulate
from pastalang.runtime.constraints.dfa.tabled import TableMachine
from pastalang.runtime.constraints.guide import GuideError
from pastalang.runtime.constraints.seam import Seam

_KEPT = 256
_MANY_STATES = 4_000  # a third of a second in a grammar, which counts such steps in few spellings or not at all


def number_machine(type: t.Integer | t.Number, seam: Seam) -> TableMachine | AutomatonMachine:
    return _machine(*_number(type), seam)


def number_table(type: t.Integer | t.Number) -> Table | None:
    """None where it has too many states to be written out: steps that are no whole numbers may have more."""
    _, table = _number(type)
    step = type.multiple_of
    return table if table is not None or step is None or step == int(step) else _large(type)


def pattern_machine(pattern: str, seam: Seam, *, quoted: bool) -> TableMachine | AutomatonMachine:
    return _machine(*_pattern(pattern, quoted), seam)


def string_machine(
    patterns: Sequence[str], seam: Seam, *, least: int, most: int | None, quoted: bool
) -> TableMachine | AutomatonMachine | CountedMachine:
    """A string that matches all of the patterns, with so many characters."""
    if len(patterns) == 1 and not least and most is None:
        return pattern_machine(patterns[0], seam, quoted=quoted)
    automaton, table = _meeting(tuple(patterns), quoted)
    if not least and most is None:
        return _machine(automaton, table, seam)
    if table is None:
        return _machine(*_limited(tuple(patterns), least, most, quoted), seam)
    return CountedMachine(table, _lengths(tuple(patterns), least, most, quoted), spelling_of(quoted), seam)


def _parsed(pattern: str) -> Node:
    try:
        return parse_regex(pattern)
    except RegexError as problem:
        raise GuideError(f"the pattern /{pattern[:40]}/ cannot be enforced: {problem.message}") from problem


def _machine(automaton: Automaton, table: Table | None, seam: Seam) -> TableMachine | AutomatonMachine:
    return AutomatonMachine(automaton, seam) if table is None else TableMachine(table, seam)


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
def _meeting(patterns: tuple[str, ...], quoted: bool) -> tuple[Automaton, Table | None]:
    automaton = meet_patterns([_parsed(pattern) for pattern in patterns], quoted=quoted)
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT)
def _limited(patterns: tuple[str, ...], least: int, most: int | None, quoted: bool) -> tuple[Automaton, Table | None]:
    """With the limits of length written out, for patterns that are too large by themselves."""
    any_characters = Repetition(Chars(((0, 0xD7FF), (0xE000, 0x10FFFF))), least, most)
    automaton = meet_patterns([*map(_parsed, patterns), any_characters], quoted=quoted)
    return automaton, tabulate(automaton)


@lru_cache(maxsize=_KEPT)
def _lengths(patterns: tuple[str, ...], least: int, most: int | None, quoted: bool) -> Lengths:
    _, table = _meeting(patterns, quoted)
    assert table is not None
    return Lengths(table, spelling_of(quoted), least, most)


@lru_cache
def spelling_of(quoted: bool) -> Spelling:
    """Where characters end in the text of a value."""
    return spell_json(()) if quoted else spell_characters()


def forget() -> None:
    """Makes everything anew from here on, as in a new process."""
    for known in (_number, _large, _pattern, _meeting, _limited, _lengths):
        known.cache_clear()
