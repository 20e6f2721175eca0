"""The text of an answer with a given value is the text that a run writes for it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Engine
from pastalang.program.program import JsonBody, TextBody
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.values.json import parse_json, write_json
from pastalang.values.text import answer_text, running_text

SCALARS = st.sampled_from(['"a" | "b"', "integer(0..20)", "boolean", "null", '"x" | null', "1 | 12", "/[a-c]{1,2}/"])
ENGINE = Engine(hashed_model(320, seed=5), byte_tokenizer())
WARM = pastalang.Sampling(temperature=1.5)


def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.lists(inner, min_size=1, max_size=3)
    return fields.map(lambda types: "{ " + ", ".join(f"k{at}: {type}" for at, type in enumerate(types)) + " }")


TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        objects(inner),
        objects(inner).map(lambda type: f"[{type}](..2)"),
        objects(inner).map(lambda type: f"{type} | null"),
        SCALARS.map(lambda type: f"[{type}](1..2)"),
    ),
    max_leaves=5,
)


@settings(max_examples=25)
@given(objects(TYPES), st.integers(0, 5))
def test_a_json_answer_is_laid_out_as_a_run_writes_it(type: str, seed: int) -> None:
    program = pastalang.compile(f'template t()\nuser """x"""\nassistant json {{ last: boolean, inner: {type} }}\n')
    body = program.only_template.messages[-1].body
    assert isinstance(body, JsonBody)
    result = ENGINE.run(program, {}, seed=seed, sampling=WARM)
    assert answer_text(body.type, result.exact, program.types) == result.text


TRIP = pastalang.compile('''
template t(city: text, stops: [text])
user """
{city}
"""
assistant text """
{opening: "Hi" | "Ho"} in {city}
{fork tip (1..3)}
{n}. {title: /[a-c]{1,2}/}: {async detail: [integer(0..9)](2..2)}
{end}
{sync}
{fork stop in stops}
* {stop}: {good: boolean}
{end}
End {end: integer(1..9)}
"""
''')


@settings(max_examples=10)
@given(st.integers(0, 50))
def test_running_text_is_laid_out_as_a_run_writes_it(seed: int) -> None:
    inputs = {"city": "Rome", "stops": ["A", "B"]}
    result = ENGINE.run(TRIP, inputs, seed=seed, sampling=WARM)
    body = TRIP.only_template.messages[-1].body
    assert isinstance(body, TextBody)
    values = parse_json(write_json(result.exact))
    assert isinstance(values, dict)
    assert running_text(body.pieces, values, inputs.__getitem__) == result.text
