"""A table accepts exactly the bytes that its automaton accepts, after states were merged."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import example, given
from hypothesis import strategies as st

from pastalang.program import types as t
from pastalang.program.regex import parse_regex
from pastalang.runtime.constraints.dfa.number import NumberAutomaton
from pastalang.runtime.constraints.dfa.pattern import PatternAutomaton
from pastalang.runtime.constraints.dfa.table import DEAD, Automaton, Table, tabulate

PARTS = st.sampled_from(["a", "b", "c0b", "\\x0b", '"', "\\\\", "[a-z0]", "[^b]", "é|è", ".", "😀", ""])
PATTERNS = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,3}", "{1,2}"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


def _check(automaton: Automaton, table: Table, data: st.DataObject | None) -> None:
    at, state = 0, automaton.start
    for _ in range(12):
        ways = dict(automaton.edges(state))
        assert {byte for byte in range(256) if table.rows[at, byte] != DEAD} == set(ways)
        assert bool(table.accepting[at]) == automaton.accepts(state)
        assert _takes(automaton, state, table.endings[at])
        assert {number for _, number in table.leads[at]} == set(table.rows[at].tolist()) - {DEAD}
        assert all((table.rows[at, list(bytes_)] == number).all() for bytes_, number in table.leads[at])
        if not ways:
            break
        byte = min(ways) if data is None else data.draw(st.sampled_from(sorted(ways)))
        at, state = int(table.rows[at, byte]), ways[byte]


def _takes(automaton: Automaton, state: Hashable, text: bytes) -> bool:
    for byte in text:
        ways = automaton.edges(state)
        if byte not in ways:
            return False
        state = ways[byte]
    return automaton.accepts(state)


@given(PATTERNS, st.booleans(), st.data())
@example("\\x0b|c0b", True, None)
@example("([a-z]{0,9}-)*[a-z]{0,9}", True, None)
def test_the_table_of_a_pattern_accepts_the_pattern(pattern: str, quoted: bool, data: st.DataObject | None) -> None:
    automaton = PatternAutomaton(parse_regex(pattern), quoted=quoted)
    table = None if automaton.is_empty else tabulate(automaton)
    if table is not None:
        _check(automaton, table, data)


@given(st.integers(-1200, 40), st.integers(0, 1300), st.data())
def test_the_table_of_numbers_accepts_the_numbers(low: int, width: int, data: st.DataObject) -> None:
    automaton = NumberAutomaton(t.Integer(minimum=low, maximum=low + width))
    table = tabulate(automaton)
    assert table is not None
    _check(automaton, table, data)


@given(PATTERNS)
@example("\\x0b|c0b")
def test_a_state_is_at_one_place_of_an_escape(pattern: str) -> None:
    """How many characters some bytes are is the same however a state was reached."""
    automaton = PatternAutomaton(parse_regex(pattern), quoted=True)
    table = None if automaton.is_empty else tabulate(automaton)
    left, waiting = {0: 0}, [0] if table is not None else []
    while table is not None and waiting:
        at = waiting.pop()
        for bytes_, after in table.leads[at]:
            for missing in {_missing(left[at], byte) for byte in bytes_}:
                waiting += [] if after in left else [after]
                assert left.setdefault(after, missing) == missing


def _missing(before: int, byte: int) -> int:
    """How far the end of an escape is behind a byte: 5 is behind the backslash, 4 and less are digits."""
    if before == 5:
        return 4 if byte == 0x75 else 0
    return 5 if before == 0 and byte == 0x5C else max(before - 1, 0)
