"""Inputs as a caller gives them: refused in their place, or spelled in the prompt as what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import BadInputs, Engine, Result, build_plan
from pastalang.plan.serialise import from_json, to_json
from pastalang.program.program import TextBody
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.values.text import message_texts, text_of

NUMBER = pastalang.compile('template t(n: number)\nuser """\n{n}\n"""\nassistant json { a: string(max=4) }\n')
PARTS = st.recursive(
    st.one_of(st.text(max_size=5), st.booleans(), st.integers(), st.decimals(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.parametrize(
    "bad", [Decimal("sNaN"), Decimal("NaN"), Decimal("-Infinity"), float("nan"), float("inf"), True, "1"]
)
def test_what_is_no_number_is_refused_in_its_place_and_the_others_are_answered(bad: Any) -> None:
    first, second, third = Engine(hashed_model(320), byte_tokenizer()).batch(NUMBER, [{"n": 1}, {"n": bad}, {"n": 2}])
    assert isinstance(first, Result) and isinstance(third, Result)
    assert isinstance(second, BadInputs) and "`n` has to be a number" in str(second)


@pytest.mark.parametrize("number", [10**309, -(10**3_999), Decimal("1e400"), Decimal("1.10"), 1.5])
def test_any_finite_number_may_be_given(number: Any) -> None:
    assert isinstance(Engine(hashed_model(320), byte_tokenizer()).run(NUMBER, {"n": number}), Result)


@given(st.dictionaries(st.text(max_size=3), PARTS, min_size=1, max_size=3))
def test_a_record_is_spelled_as_json_digit_for_digit(record: dict[str, Any]) -> None:
    text = text_of(MappingProxyType(record))
    assert text == text_of(record)
    assert _numbers(json.loads(text, parse_float=Decimal)) == _numbers(record)


def _numbers(value: Any) -> list[Decimal]:
    if isinstance(value, dict | MappingProxyType):
        return [number for part in value.values() for number in _numbers(part)]
    if isinstance(value, list):
        return [number for part in value for number in _numbers(part)]
    return [Decimal(value)] if isinstance(value, int | Decimal) and not isinstance(value, bool) else []


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (3, "3"), (True, "true"), (["a", "b"], "a, b"), ({"a": 1}, '{"a": 1}'), ([{"a": 1}], '[{"a": 1}]')],
)
def test_values_stand_in_a_prompt_as_people_write_them(value: object, text: str) -> None:
    assert text_of(value) == text


TONE = pastalang.compile('''
type Tone = "formal" | "friendly"
template t(tone: Tone, others: [Tone] = [])
user """
{tone} {others}
"""
assistant json { a: boolean }
''')


class Tone(Enum):
    FORMAL = "formal"


def test_an_enum_input_takes_its_texts_and_members_of_a_python_enum() -> None:
    engine = Engine(hashed_model(320), byte_tokenizer())
    given: list[dict[str, Any]] = [
        {"tone": "formal", "others": ["friendly"]},
        {"tone": Tone.FORMAL, "others": ["friendly"]},
    ]
    first, second = engine.batch(TONE, given)
    assert isinstance(first, Result) and isinstance(second, Result)
    assert first.trace.fed == second.trace.fed and "formal friendly" in "".join(fed.text for fed in first.trace.fed)


def test_a_list_that_a_caller_fills_again_is_that_of_its_own_request() -> None:
    def rows(others: list[str]) -> Iterator[dict[str, Any]]:
        for tone in ("formal", "friendly"):
            others[:] = [tone]
            yield {"tone": tone, "others": others}

    found = Engine(hashed_model(320), byte_tokenizer()).map(TONE, rows([]))
    fed = ["".join(part.text for part in one.trace.fed) for one in found]
    assert "formal formal" in fed[0] and "friendly friendly" in fed[1]


def test_an_enum_input_refuses_another_text_and_says_what_it_takes() -> None:
    wanted = '`tone` has to be "formal" or "friendly", not \'formel\'; did you mean "formal"?'
    with pytest.raises(BadInputs, match=re.escape(wanted)):
        Engine(hashed_model(320), byte_tokenizer()).run(TONE, {"tone": "formel"})


BLOCKS = pastalang.compile('''
template t(xs: [{ name: text, tags: [text] }], context: text, tone: "formal" | "friendly", n: number, is_brief: boolean)
user """
{for x in xs}
{n}. {x.name}{if x.tags}:{for tag in x.tags} #{tag}{end}{else}!{end} {context}
{end}
{if context}<{context}>{else}none{end}{if not is_brief}long{end}
{if tone == "formal"}Dear{end}{if not n == 1.5}{{}}{end}
"""
assistant json { a: boolean }
''')


@settings(max_examples=25)
@given(
    st.lists(st.fixed_dictionaries({"name": st.text(max_size=3), "tags": st.lists(st.text(max_size=2), max_size=2)})),
    st.text(max_size=3),
    st.sampled_from(["formal", "friendly"]),
    st.sampled_from([1.5, Decimal("1.50"), 2, 1.25]),
    st.booleans(),
)
def test_blocks_of_a_message_write_what_python_would(
    xs: list[dict[str, Any]], context: str, tone: str, n: Any, is_brief: bool
) -> None:
    wanted = "".join(
        f"{at}. {x['name']}{':' + ''.join(f' #{tag}' for tag in x['tags']) if x['tags'] else '!'} {context}\n"
        for at, x in enumerate(xs, start=1)
    )
    wanted += f"<{context}>" if context else "none"
    wanted += "" if is_brief else "long"
    wanted += "\n" + ("Dear" if tone == "formal" else "") + ("" if n == 1.5 else "{}")
    values = {"xs": xs, "context": context, "tone": tone, "n": n, "is_brief": is_brief}
    body = BLOCKS.only_template.messages[0].body
    assert isinstance(body, TextBody)
    assert "".join(message_texts(body.pieces, values.__getitem__)) == wanted


def test_a_plan_with_blocks_is_read_as_it_was_written() -> None:
    plan = build_plan(BLOCKS.only_template, BLOCKS)
    assert from_json(to_json(plan)) == plan


def test_a_run_feeds_what_the_blocks_of_its_messages_write() -> None:
    engine = Engine(hashed_model(320), byte_tokenizer())
    values = {"xs": [{"name": "A", "tags": ["u"]}], "context": "", "tone": "formal", "n": 2, "is_brief": True}
    first, again = (engine.run(BLOCKS, values) for _ in range(2))
    assert "1. A: #u \nnone\nDear{}" in "".join(fed.text for fed in first.trace.fed)
    assert again.usage.reused_tokens > 20 and again.text == first.text
