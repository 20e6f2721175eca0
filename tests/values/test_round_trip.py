"""A model becomes a program, the program a model, and that model the same program: no type is written twice."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

import pastalang
from pastalang import NotExpressible
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.values.conversion import Converted
from pastalang.values.fit import find_mismatches
from pastalang.values.json import JsonValue
from pastalang.values.pydantic.from_core import type_of_model
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.to_source import program_source
from tests.properties.hole_types import NAMED, TYPES, near
from tests.work import calls_of


class Tree(BaseModel):
    n: int
    below: list[Tree] = Field(max_length=2)


@st.composite
def models(draw: st.DrawFn) -> type[BaseModel]:
    """Models that use a few small ones again and again."""
    known: list[Any] = [bool, Annotated[str, Field(max_length=4)], Tree]
    for number in range(draw(st.integers(1, 4))):
        fields = draw(st.lists(_annotations(known), min_size=1, max_size=4))
        about = draw(st.sampled_from([None, "what it is"]))
        named = {f"f{at}": (field, ...) for at, field in enumerate(fields)}
        known.append(create_model(f"Sub{number}" if number else "Sub", __doc__=about, **named))  # type: ignore[call-overload]
    last: type[BaseModel] = known[-1]
    return last


def _annotations(known: list[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.sampled_from(known), st.integers(0, 4)).map(_around)


def _around(drawn: tuple[Any, int]) -> Any:
    part, kind = drawn
    return [part, part | None if isinstance(part, type) else part, list[part], dict[str, part], tuple[part, bool]][kind]


@settings(max_examples=40)
@given(models())
def test_a_model_comes_back_as_the_program_that_it_made(model: type[BaseModel]) -> None:
    first = pastalang.from_model(model)
    again = pastalang.model_of(first)
    assert pastalang.from_model(again, name=model.__name__).source.text == first.source.text
    assert set(again.model_json_schema().get("$defs", {})) <= set(first.types) | {model.__name__}
    around = create_model("Around", inner=(again, ...))  # inside another model, it is converted from its fields
    assert set(pastalang.from_model(around).types) <= set(first.types) | {again.__name__}


@settings(max_examples=30)
@given(models())
def test_a_schema_of_a_model_names_what_it_uses_twice(model: type[BaseModel]) -> None:
    document = json.dumps(model.model_json_schema())
    program = pastalang.from_schema(document, name="record")
    assert set(program.types) <= {*json.loads(document).get("$defs", {}), model.__name__}


_LARGE = {"type": "object", "properties": {f"k{n}": {"enum": [f"{n}-{m}" for m in range(9)]} for n in range(9)}}
_LARGE |= {"required": list(_LARGE["properties"])}  # type: ignore[operator]


@pytest.mark.parametrize(
    "large",
    [
        _LARGE,
        {"anyOf": [_LARGE, {"type": "array", "items": _LARGE}]},
        {"enum": [f"value {n}" for n in range(90)]},
        {"allOf": [{**_LARGE, "title": "A"}, {"required": ["k0"]}]},
    ],
    ids=["object", "union", "enum", "one hole"],
)
def test_what_a_schema_refers_to_often_is_written_once(large: dict[str, Any]) -> None:
    properties = {f"a{n}": {"$ref": "#/$defs/large"} for n in range(30)}
    whole = {"type": "object", "properties": properties, "required": [*properties], "$defs": {"large": large}}
    text = program_source(type_of_schema(json.dumps(whole), name="x"), name="x")
    assert len(text) < 2 * len(json.dumps(whole))
    assert pastalang.compile(text)


def test_parts_that_would_each_copy_all_definitions_become_one_hole() -> None:
    parts = {
        f"a{n}": {"allOf": [{"$ref": "#/$defs/large"}, {"properties": {f"x{n}": {"type": "null"}}}]} for n in range(30)
    }
    whole = {"type": "object", "properties": parts, "required": [*parts], "$defs": {"large": _LARGE}}
    found = type_of_schema(json.dumps(whole), name="x")
    assert any("repeat most of its definitions" in str(note) for note in found.notes)
    assert len(program_source(found, name="x")) < 2 * len(json.dumps(whole))


def _doubling(levels: int) -> tuple[dict[str, Any], type[BaseModel]]:
    """A schema and a model, each level of which uses the next one twice."""
    definitions: dict[str, Any] = {f"D{levels}": {"type": "boolean"}}
    model: Any = bool
    for level in reversed(range(levels)):
        parts = {key: {"$ref": f"#/$defs/D{level + 1}"} for key in "ab"}
        definitions[f"D{level}"] = {"type": "object", "properties": parts, "required": ["a", "b"]}
        model = create_model(f"D{level}", a=(model, ...), b=(model, ...))
    return {"$ref": "#/$defs/D0", "$defs": definitions}, model


def test_a_type_that_is_deep_or_doubles_at_every_level_is_refused_at_once() -> None:
    document, model = _doubling(30)
    deep: Any = reduce(lambda inner, number: create_model(f"M{number}", a=(inner, ...)), range(200), Any)
    for convert, said in (
        (lambda: type_of_schema(json.dumps(document)), "more than 20,000 parts"),
        (lambda: type_of_model(model), "more than 20,000 parts"),
        (lambda: type_of_model(deep), "^M199 cannot be expressed:\n  its types are nested more than 64 levels deep$"),
    ):

        def refused(convert: Any = convert, said: str = said) -> None:
            with pytest.raises(NotExpressible, match=said):
                convert()

        refused()
        assert calls_of(refused) < 100_000


@settings(max_examples=30)
@given(models())
def test_a_model_and_the_text_of_its_program_are_the_same_program(model: type[BaseModel]) -> None:
    program = pastalang.from_model(model)
    written = pastalang.compile(program.source.text, name=program.source.name)
    assert replace(program, notes=()) == written


@settings(max_examples=100)
@given(st.data(), TYPES)
def test_a_type_and_its_text_accept_the_same_values(data: st.DataObject, type: t.Type) -> None:
    whole = t.Object((t.Field("answer", type), t.Field("other", t.String())))
    try:
        program = pastalang.compile(program_source(Converted(whole, NAMED), name="record"))
    except (NotExpressible, pastalang.ProgramError):  # the rules of programs are checked in one place, on the text
        return
    body = program.only_template.messages[-1].body
    assert isinstance(body, JsonBody)
    for value in data.draw(st.lists(near(type), max_size=5)):
        answer: JsonValue = {"answer": value, "other": ""}
        assert bool(find_mismatches(whole, answer, NAMED)) == bool(find_mismatches(body.type, answer, program.types))
