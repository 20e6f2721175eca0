"""A pattern with limits of length: it accepts the strings that match and keep the limits, and no others."""

from __future__ import annotations

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.automaton_machine import CountedMachine
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import GuideError, Machine, MachineState
from pastalang.runtime.constraints.machine_guide import MachineGuide
from tests.properties.vocabularies import plain_bytes

PATTERNS = (
    "[a-z]*", "(ab|c)*", "(aa)+", "a{2,5}b?", '[^a]*x+|"+', "(é|😀|\\n)*", "([a-c]{3} )*", "a*|b{7}",
    '(\\|")*a', "(a|b)*a(a|b)",
)  # fmt: skip
TEXTS = st.text(alphabet='aabcé😀"\\\n x', max_size=9)


def machine_of(type: t.String, form: Form) -> Machine | None:
    """None where nothing fits."""
    try:
        guide = compile_guide(type, form=form, follow=",", vocabulary=plain_bytes())
    except GuideError:
        return None
    assert isinstance(guide, MachineGuide)
    return guide.machine


def stands(machine: Machine, raw: bytes) -> MachineState | None:
    state: MachineState | None = machine.start
    for byte in raw:
        state = None if state is None else machine.step(state, byte)
    return state


@given(st.sampled_from(PATTERNS), st.integers(0, 6), st.none() | st.integers(0, 8), st.sampled_from(Form), st.data())
@example("a*|b{7}", 5, 7, Form.JSON, None)
def test_only_matches_within_the_limits_are_accepted(
    pattern: str, least: int, most: int | None, form: Form, data: st.DataObject | None
) -> None:
    machine = machine_of(t.String(pattern=pattern, min_chars=least, max_chars=most), form)
    texts = ["b" * 7, "a" * 5] if data is None else data.draw(st.lists(TEXTS | st.from_regex(pattern, fullmatch=True)))
    for text in texts:
        fits = re.fullmatch(pattern, text) is not None and least <= len(text) and (most is None or len(text) <= most)
        raw = (json.dumps(text, ensure_ascii=False) if form is Form.JSON else text).encode()
        state = None if machine is None else stands(machine, raw)
        assert (machine is not None and state is not None and machine.accepts(state)) == fits, text


@given(st.sampled_from(PATTERNS), st.integers(0, 6), st.none() | st.integers(0, 8), st.sampled_from(Form), st.data())
def test_an_ending_completes_the_value_from_every_state(
    pattern: str, least: int, most: int | None, form: Form, data: st.DataObject
) -> None:
    machine = machine_of(t.String(pattern=pattern, min_chars=least, max_chars=most), form)
    if machine is None:
        return
    tokens, state = plain_bytes(), machine.start
    for _ in range(30):
        ending = machine.ending(state)
        assert ending is not None
        ended = state
        for byte in b"".join(tokens.text(token) or b"" for token in ending):
            following = machine.step(ended, byte)
            assert following is not None
            ended = following
        assert machine.accepts(ended)
        ways = [following for byte in range(256) if (following := machine.step(state, byte)) is not None]
        assert bool(ways) == machine.can_continue(state)
        if not ways:
            break
        state = data.draw(st.sampled_from(ways))


def test_formats_with_a_limit_are_counted() -> None:
    for name in ("email", "url", "hostname", "uri"):
        assert isinstance(machine_of(t.String(format=name, max_chars=40), Form.JSON), CountedMachine)
