"""Models become programs, and programs become models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import pastalang
from pastalang.program import types as t
from pastalang.program.program import JsonBody


class Size(BaseModel):
    width: float = Field(gt=0)
    unit: Literal["cm", "in"] = "cm"


def test_an_object_is_the_answer_itself() -> None:
    program = pastalang.from_model(Size, name="measure")
    body = program.only_template.messages[-1].body
    assert isinstance(body, JsonBody)
    assert isinstance(body.type, t.Object)
    assert [field.key for field in body.type.fields] == ["width", "unit"]
    assert pastalang.model_of(program).__name__ == "Measure"


def test_a_schema_becomes_a_program_and_a_schema_again() -> None:
    document = '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}'
    program = pastalang.from_schema(document, name="a")
    assert pastalang.schema_of(program) == {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False,
    }  # fmt: skip


def test_the_template_has_to_be_named_where_there_are_several() -> None:
    program = pastalang.compile(
        'template a()\n\nassistant json { x: integer }\n\ntemplate b()\n\nassistant text """\n{x: string}\n"""\n'
    )
    assert pastalang.model_of(program, template="a").__name__ == "A"
    with pytest.raises(pastalang.InputError, match="name one of them: a, b"):
        pastalang.model_of(program)
    with pytest.raises(pastalang.InputError, match="has no template c"):
        pastalang.model_of(program, template="c")
    with pytest.raises(pastalang.InputError, match="running text"):
        pastalang.model_of(program, template="b")


@pytest.mark.parametrize("given", [None, 3, [int], "Ticket", Size(width=1.0)], ids=str)
def test_a_program_is_made_of_a_type(given: Any) -> None:
    with pytest.raises(
        TypeError, match="takes a Pydantic model, a dataclass, a TypedDict or another type, as a class, not "
    ):
        pastalang.from_model(given)


def test_dataclasses_and_typed_dicts_are_models_too() -> None:
    @dataclass
    class Point:
        x: int

    class Named(TypedDict):
        name: str

    for model in (Point, Named):
        found: Any = model
        assert list(pastalang.from_model(found).templates) == [model.__name__.lower()]


def test_a_name_that_is_not_defined_is_told() -> None:
    own = {"__annotations__": {"x": "Nowhere"}, "__module__": __name__}
    for model in (type("Later", (BaseModel,), dict(own)), dataclass(type("Later", (), dict(own)))):
        with pytest.raises(pastalang.NotExpressible, match="Later cannot be expressed:\n  the name 'Nowhere'"):
            pastalang.from_model(model)
    behind: Any = Annotated[str, Field(pattern="(?=a)b")]
    with pytest.raises(pastalang.NotExpressible, match="Pydantic cannot validate it: look-around, including"):
        pastalang.from_model(behind)


def test_what_is_no_text_and_no_path_is_told() -> None:
    for given, shown in ((None, "None"), (b"x", "b'x'"), (3, "3")):
        wrong: Any = given
        with pytest.raises(TypeError, match=f"compiled from its text, not from {shown}; `load` reads a file"):
            pastalang.compile(wrong)
    wrong = 3
    with pytest.raises(TypeError, match="loaded from a path, not from 3"):
        pastalang.load(wrong)
    with pytest.raises(TypeError, match="takes a JSON Schema as text or as a dict, not 3"):
        pastalang.from_schema(wrong)
