"""A lexer that has used up its fuel on earlier values is replaced, so that later values are accepted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints import matcher
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.grammar_guide import GrammarGuide
from pastalang.runtime.constraints.masks import allows, tokens_of
from pastalang.values.fit import read
from tests.properties.vocabularies import byte_level, plain_bytes

WORDS = t.Array(t.String(pattern=r"(\S+\s+){0,19}\S+", max_chars=200))
LITTLE = {"initial_lexer_fuel": 650_000, "step_lexer_fuel": 2_000_000}


def _texts(rng: random.Random) -> Iterator[str]:
    for _ in range(12):
        yield json.dumps([" ".join("w" * rng.randint(1, 7) for _ in range(rng.randint(12, 20)))])


def _guide() -> GrammarGuide:
    guide = compile_guide(WORDS, form=Form.JSON, follow="", vocabulary=plain_bytes())
    assert isinstance(guide, GrammarGuide)
    return guide


def test_values_are_accepted_after_many_others() -> None:
    guide = _guide()
    assert all(guide.takes(text) for text in _texts(random.Random(0)))


def test_a_lexer_without_fuel_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "_LIMITS", LITTLE)
    guide, tokens, before = _guide(), plain_bytes(), random.Random(0)
    assert all(guide.takes(text) for text in _texts(before)), "before"
    for text in _texts(random.Random(1)):
        states = [guide.start(max_tokens=len(text) + 9) for _ in range(2)]
        for byte in text.encode():
            token = tokens.ids[bytes((byte,))]
            for state in states:
                assert allows(state.allowed(), token), state.text
                state.advance(token)
        assert [state.text for state in states] == [text, text]
        assert not any(state.truncated for state in states)


def test_a_value_that_grows_too_complex_for_the_grammar_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick mask may allow a token that the parser then refuses, because too many alternatives are still possible."""
    monkeypatch.setitem(matcher._LIMITS, "max_items_in_row", 40)
    text_or_number = t.Union((t.Integer(0, 99), t.String()))
    arms = [t.Object((t.Field("a", t.String(max_chars=3 + n)), t.Field("b", text_or_number))) for n in range(15)]
    type = t.Array(t.Union(tuple(arms)), 1)
    guide = compile_guide(type, form=Form.JSON, follow="", vocabulary=byte_level())
    for seed in (0, 3, 6, 7, 9):  # of the first ten, those that meet such a token soon
        state, rng = guide.start(max_tokens=100), random.Random(seed)
        while not state.is_finished:
            state.advance(int(rng.choice(tokens_of(state.allowed()).tolist())))
        assert read(state.text, type, {}).fits, state.text
        assert state.truncated and state.remaining > 50
