"""Types of Python in, values of them out: Pydantic models and everything else that Pydantic can read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, field_validator
from typing_extensions import TypedDict

import pastalang
from tests.api.engines import hashing, uniform, writing


class Line(BaseModel):
    kind: Literal["fee", "item"]
    count: Annotated[int, Field(ge=0, le=9)]


class Note(BaseModel):
    urgent: bool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: bool


class Shape(TypedDict):
    colour: Colour


class Node(BaseModel):
    leaf: bool
    next: Node | None


class Product(BaseModel):
    """A product of the shop."""

    brand: Annotated[str | None, pastalang.Tokens(12)] = Field(alias="Brand", description="the maker")
    price: Annotated[Decimal, Field(ge=0, decimal_places=2, max_digits=6)]
    released: date | None
    tags: Annotated[set[Literal["new", "used"]], Field(max_length=2)]
    line: Line | None


TYPES: tuple[Any, ...] = (
    Line, Annotated[list[Line], Field(max_length=2)], Line | Note, Note | None, Colour, Literal["yes", "no"], Point,
    Shape, Annotated[int, Field(ge=3, le=5)], set[Literal["a", "b"]], tuple[bool, Colour], bool, Node,
    dict[Literal["a", "b"], bool],
)  # fmt: skip


@pytest.mark.parametrize("wanted", TYPES, ids=str)
def test_the_value_is_of_the_type_whatever_the_type_is(wanted: Any) -> None:
    value = hashing().extract(wanted, "Two fees.", on_truncated="keep")
    assert TypeAdapter(wanted).validate_python(value, strict=True) == value
    found = hashing().extract(wanted, "Two fees.", details=True, on_truncated="keep")
    assert found.value == value and found.fields == found.result.fields
    assert found.confidence == min((field.confidence for field in found.fields), default=1)
    assert asyncio.run(hashing().aextract(wanted, "Two fees.", on_truncated="keep")) == value


def test_what_the_model_writes_is_what_the_instance_holds() -> None:
    answers = {'"Brand": ': '"Sharp"', '"price": ': "899.50", '"released": ': '"2024-02-29"', '"tags": ': '["used"]'}
    product = writing({**answers, '"line": ': "null"}).extract(Product, "Sharp, 899.50")
    assert product == Product(
        Brand="Sharp", price=Decimal("899.50"), released=date(2024, 2, 29), tags={"used"}, line=None
    )


def prompt(type: Any = Note, **given: Any) -> str:
    found = uniform().extract(type, "Now!", details=True, on_truncated="keep", **given)
    return "".join(one.text for one in found.result.trace.fed if one.forward_pass == 1 and one.lane == 0)


def test_the_model_reads_the_fields_with_their_descriptions() -> None:
    told = prompt(Product)
    assert "A product of the shop." in told and "Brand: string | null  // the maker" in told
    assert 'tags: ["new" | "used"]' in told and "Now!" in told


@pytest.mark.parametrize("example", [("x", {"urgent": "perhaps"}), ("x",), "x", (3, Note(urgent=True))])
def test_an_example_that_does_not_fit_is_refused_by_number(example: Any) -> None:
    with pytest.raises(pastalang.InputError, match=r"examples\[0\]"):
        uniform().extract(Note, "x", examples=[example])


def test_annotations_say_what_a_model_alone_cannot() -> None:
    class Ad(BaseModel):
        brand: Annotated[str, pastalang.Verbatim("text")]
        first: Annotated[str, pastalang.Sequential(), pastalang.Tokens(5)]
        second: Annotated[str, pastalang.Sequential(), pastalang.Tokens(5)]
        headline: Annotated[str, pastalang.Tokens(6), pastalang.After("brand")]

    program = pastalang.from_model(Ad)
    graph = pastalang.build_plan(program.only_template, program).graph()
    assert sorted(graph.predecessors("headline")) == ["brand"] and list(graph.predecessors("second")) == ["first"]
    assert graph.nodes["headline"]["max_tokens"] == 6
    assert uniform().extract(Ad, "Sharp TV", on_truncated="keep").brand in "Sharp TV"


def test_a_program_of_a_model_can_be_run_on_many_texts() -> None:
    program = pastalang.from_model(Line)
    result = hashing().run(program, text="Two fees.", model=Line)
    assert isinstance(result.value, Line) and pastalang.Result is type(result)


def test_limits_that_were_chosen_are_noted() -> None:
    class Open(BaseModel):
        name: str
        lines: list[Line]

    notes = " ".join(pastalang.from_model(Open).notes)
    assert "name" in notes and "lines" in notes and "64 tokens" in notes


def test_a_model_becomes_a_program_and_a_program_a_model() -> None:
    program = pastalang.from_model(Product)
    again = pastalang.model_of(program)
    assert list(again.model_json_schema(by_alias=True)["properties"]) == ["Brand", "price", "released", "tags", "line"]
    value = {"Brand": None, "price": 1.5, "released": None, "tags": ["new"], "line": {"kind": "fee", "count": 3}}
    assert again.model_validate(value).model_dump(by_alias=True)["line"] == {"kind": "fee", "count": 3}
    with pytest.raises(ValueError, match="count"):
        again.model_validate({**value, "line": {"kind": "fee", "count": 10}})


REFUSED: list[tuple[Any, str]] = [
    (bytes, "bytes"),
    (Callable[[int], int], "callable"),
    (complex, "complex"),
    (dict[bytes, int], "bytes"),
    (tuple[int, Annotated[list[int], Field(min_length=2, max_length=1)]], "[1]: an array of at least 2 and at most 1"),
    (Annotated[int, Field(gt=1, lt=2)] | None, "no whole number is above 1 and below 2"),
]


@pytest.mark.parametrize(("type", "said"), REFUSED, ids=str)
def test_what_cannot_be_enforced_is_refused_with_its_path(type: Any, said: str) -> None:
    class Holder(BaseModel):
        inner: type  # type: ignore[valid-type]

    with pytest.raises(pastalang.NotExpressible, match=r"(?s)inner.*" + re.escape(said)):
        pastalang.from_model(Holder)


def test_a_validator_may_change_a_value() -> None:
    class Upper(BaseModel):
        word: Annotated[str, pastalang.Tokens(6)]

        @field_validator("word")
        @classmethod
        def shout(cls, word: str) -> str:
            return word.upper()

    found = writing({'"word": ': '"hi"'}).extract(Upper, "x", details=True)
    assert found.value.word == "HI" and found.field("word").text == '"hi"'


def test_an_extraction_knows_what_it_rests_on() -> None:
    found = writing({'"kind": ': '"fee"', '"count": ': "3"}).extract(Line, "Three fees.", details=True)
    assert isinstance(found, pastalang.Extraction) and found.status == "ok" and found.problem is None
    assert 0.9 < found.confidence == min(field.confidence for field in found.fields) <= 1
    assert found.usage.output_tokens and not found.truncated and found.sources == {}
    assert found.value == Line(kind="fee", count=3) and "Line(" in repr(found)
