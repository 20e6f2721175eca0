"""The schema of an answer as text in a prompt: what it says, and who gets to read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import pastalang
from pastalang import Engine, Program
from pastalang.program import types as t
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.values.describe import Style, prompt_text
from tests.properties.hole_types import ALL_TYPES, NAMED
from tests.work import calls_of


def described(type: t.Type, names: Iterator[int]) -> t.Type:
    """The type with a description of its own for every field."""
    match type:
        case t.Object(fields=fields):
            places = (replace(one, type=described(one.type, names), description=f"d{next(names)}.") for one in fields)
            return t.Object(tuple(places))
        case t.Array(item=item):
            return replace(type, item=described(item, names))
        case t.Map(value=value):
            return replace(type, value=described(value, names))
        case t.Tuple(items=parts):
            return replace(type, items=tuple(described(part, names) for part in parts))
        case t.Union(arms=parts):
            return replace(type, arms=tuple(described(part, names) for part in parts))
        case _:
            return type


def fields_of(type: t.Type) -> Iterator[t.Field]:
    match type:
        case t.Object(fields=fields):
            for field in fields:
                yield field
                yield from fields_of(field.type)
        case t.Array(item=inner) | t.Map(value=inner):
            yield from fields_of(inner)
        case t.Tuple(items=parts) | t.Union(arms=parts):
            for part in parts:
                yield from fields_of(part)
        case _:
            pass


@given(st.lists(ALL_TYPES, min_size=1, max_size=3), st.sampled_from(Style))
def test_every_field_is_shown_with_its_description(types: list[t.Type], style: Style) -> None:
    whole = t.Object(tuple(t.Field(f"k{number}", type) for number, type in enumerate(types)))
    type = described(whole, iter(range(1000)))
    shown = prompt_text(type, NAMED, style=style, description="What it is.")
    assert "What it is." in shown
    for field in fields_of(type):
        assert field.key in shown or json.dumps(field.key, ensure_ascii=False) in shown
        assert shown.count(f"{field.description}") == 1
    if style is Style.JSON:
        json.loads(shown)
    if style is Style.SKELETON:
        own = [shown.index(f"\n  k{number}: ") for number in range(len(types))]
        assert own == sorted(own)


@pytest.mark.parametrize("style", Style)
def test_the_work_grows_with_the_depth(style: Style) -> None:
    def calls(depth: int) -> int:
        type: t.Type = t.Integer()
        for _ in range(depth):
            type = t.Object((t.Field("a", type),))
        return calls_of(lambda: prompt_text(type, style=style))

    calls(1)
    assert calls(16) < 5 * calls(8)


class Line(BaseModel):
    """One line as it was printed."""

    item: str = Field(description="without its number", max_length=40)
    price: float = Field(description="in euros", ge=0)


class Invoice(BaseModel):
    """An invoice of a supplier."""

    number: str | None = Field(description="with its letters")
    lines: list[Line] = Field(min_length=1, max_length=5)


def prompt_of(program: Program) -> str:
    return pastalang.build_plan(program.only_template, program).branches[0].segments[1].text  # type: ignore[union-attr]


def test_a_model_shows_its_descriptions_and_docstrings_without_being_asked() -> None:
    assert (
        prompt_of(pastalang.from_model(Invoice))
        == """\
Read the text and fill in the record.

An invoice of a supplier.

{
  number: string | null  // with its letters
  // One line as it was printed.
  lines: [{
    item: string (at most 40 characters)  // without its number
    price: number (at least 0)  // in euros
  }] (1 to 5 items)
}

Write null for a value that is not given."""
    )


def test_a_schema_shows_its_descriptions() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "description": "in cm"}}, "required": ["a"]}
    assert "a: integer  // in cm" in prompt_of(pastalang.from_schema(json.dumps(schema)))


def turns_of(program: Program) -> list[str]:
    bodies = [message.body for message in program.only_template.messages[1:-2]]
    return ["".join(piece.text for piece in body.pieces) for body in bodies]  # type: ignore[union-attr]


def test_examples_of_a_model_are_earlier_turns_in_the_layout_of_an_answer() -> None:
    first = ("Two\nlines", Invoice(number=None, lines=[Line(item="a", price=1.5)]))
    second = ('a "b"', {"number": "A1", "lines": [{"item": "c", "price": 2}]})
    program = pastalang.from_model(Invoice, examples=[first, second])
    line = '    {{\n      "item": "{}",\n      "price": {}\n    }}'
    assert turns_of(program) == [
        "Two\nlines",
        f'{{\n  "number": null,\n  "lines": [\n{line.format("a", 1.5)}\n  ]\n}}',
        'a "b"',
        f'{{\n  "number": "A1",\n  "lines": [\n{line.format("c", "2")}\n  ]\n}}',
    ]


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        ([("x", {"number": 3})], "`examples[0]` does not fit: number: input should be a valid string; lines: "),
        (["x"], "`examples[0]` must be a pair of a text and its answer"),
        ([("\ud800", {})], "the text of `examples[0]` holds half of a surrogate pair"),
        (
            [("x", {"number": None, "lines": [Line(item="a", price=2), Line.model_construct(item="a", price="low")]})],
            'the answer of `examples[0]` does not fit: lines[1].price: expected a number at least 0, found "low"',
        ),
    ],
)
def test_an_example_that_does_not_fit_is_refused(examples: list[Any], said: str) -> None:
    with pytest.raises(pastalang.InputError, match=re.escape(said)):
        pastalang.from_model(Invoice, examples=examples)


PROGRAM = '''
template t(title: text)
system """
{}
"""
user """
{{title}}
"""
assistant json {{ stars: integer(1..5) "{}" }}
'''


def test_a_description_reaches_the_model_and_is_fed_once_for_many_requests() -> None:
    engine = Engine(hashed_model(320, seed=1), byte_tokenizer())
    plain = pastalang.compile(PROGRAM.format("Read.", "how good"))
    shown = pastalang.compile(PROGRAM.format("Read. {schema}", "how good"))
    added = len("{\n  stars: integer (1 to 5)  // how good\n}") + 1
    inputs = [{"title": letter * 20} for letter in "abc"]
    before = engine.run(plain, inputs[0]).usage.input_tokens
    runs = [engine.run(shown, one) for one in inputs]
    assert [run.usage.input_tokens - before for run in runs] == [added] * 3
    assert runs[-1].usage.reused_tokens > added


def test_the_holes_of_a_text_are_shown_as_fields() -> None:
    program = pastalang.compile('''
template t(title: text)
user """
{title}
{schema}
"""
assistant text """
{verdict: "good" | "bad"}
{fork tip (1..3)}
- {kind: { name: string(max=4) "in capitals" }}
{end}
{async more: string(max=5)}
"""
''')
    text = "".join(piece.text for piece in program.only_template.messages[0].body.pieces if hasattr(piece, "text"))  # type: ignore[union-attr]
    assert (
        text
        == """\

{
  verdict: "good" | "bad"
  tip: [{
    kind: {
      name: string  // in capitals
    }
  }] (1 to 3 items)
  more: string
}"""
    )
