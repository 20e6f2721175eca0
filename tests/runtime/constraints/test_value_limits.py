"""Limits that no value fits into are refused before anything runs; a list of many items has room for them."""

from __future__ import annotations

import json
import random

import pytest

import pastalang
from pastalang import DeadEnd, Engine, build_plan
from pastalang.plan.branches import Form, Hole
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model


def program(fields: str) -> pastalang.Program:
    return pastalang.compile(f'template t()\n\nuser """\nGo.\n"""\n\nassistant json {{\n  {fields}\n}}\n')


@pytest.fixture
def engine() -> Engine:
    return Engine(hashed_model(300), byte_tokenizer())


@pytest.mark.parametrize(
    ("field", "advice"),
    [
        ("x: [integer(0..9)](100..100, max_tokens=40)", "write `max_tokens=300` or more"),
        ("x: {string: boolean}(20..20, max_tokens=40)", "write `max_tokens="),
        ("x: string(min_chars=20, max=8)", "write `max=22` or more"),
    ],
)
def test_a_limit_that_leaves_no_value_is_refused_before_the_first_pass(
    engine: Engine, field: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a forward pass")

    monkeypatch.setattr(FakeModel, "forward", never)
    with pytest.raises(DeadEnd, match=advice) as refused:
        engine.run(program(f"a: boolean\n  {field} after a"), {})
    assert refused.value.field == "x" and "no value fits into" in str(refused.value)


def test_a_list_of_many_items_has_room_for_them(engine: Engine) -> None:
    assert len(engine.run(program("x: [integer(0..9)](100..100)"), {}).value["x"]) == 100


def test_the_default_limit_of_a_list_grows_with_what_it_must_hold() -> None:
    found = program("x: [integer(0..9)](100..100)\n  y: [integer]")
    plan = build_plan(found.only_template, found)
    holes = (part for branch in plan.branches for part in branch.segments if isinstance(part, Hole))
    assert {hole.field: hole.max_tokens for hole in holes} == {"x": 300, "y": 256}


@pytest.mark.parametrize(("items", "spare"), [(500, 0), (120, 40)])
def test_a_long_list_is_written(items: int, spare: int) -> None:
    tokens, rng = Tokens(vocabulary_of(byte_tokenizer())), random.Random(5)
    guide = compile_guide(t.Array(t.Integer(0, 9), items, items), form=Form.JSON, follow="", vocabulary=tokens)
    state = guide.start(max_tokens=guide.shortest + spare)
    while not state.is_finished:
        state.advance(int(rng.choice(tokens_of(state.allowed()))))
    assert len(json.loads(state.text)) == items
