"""Types that require more different items or keys than exist are refused with their path."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, StringConstraints

import pastalang
from pastalang import NotExpressible
from pastalang.program import types as t
from pastalang.values.lengths import count_values


class Color(Enum):
    RED = "red"
    BLUE = "blue"


Letter = Annotated[str, StringConstraints(pattern="^[ab]$")]


class Box(BaseModel):
    colors: set[Color] = Field(min_length=3)


class Everything(BaseModel):
    boxes: list[Box]
    letters: dict[Letter, int] = Field(min_length=3)
    enough: set[Literal[1, 2]] = Field(min_length=2)
    codes: frozenset[Letter] = Field(min_length=3)
    pair: tuple[int, Annotated[set[bool], Field(min_length=3)]]


def test_every_field_of_a_model_that_asks_for_too_many_is_named() -> None:
    with pytest.raises(NotExpressible) as refused:
        pastalang.from_model(Everything)
    assert [(problem.where, problem.reason) for problem in refused.value.problems] == [
        ("boxes[].colors", "3 different items are required, but their type has only 2 values"),
        ("letters", "3 different keys are required, but at most 2 match the pattern"),
        ("codes", "3 different items are required, but their type has only 2 values"),
        ("pair[1]", "3 different items are required, but their type has only 2 values"),
    ]


@pytest.mark.parametrize(
    ("document", "least"),
    [
        ({"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3}, 3),
        ({"type": "array", "items": {"type": "string", "pattern": "^[ab]{2}$"}, "uniqueItems": True}, 4),
        ({"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 9, "multipleOf": 3}}, 5),
        ({"type": "array", "items": {"type": ["boolean", "null"]}}, 3),
    ],
)
def test_a_schema_may_ask_for_all_there_are_and_for_no_more(document: dict[str, Any], least: int) -> None:
    for wanted in (least, least + 1):
        part = {**document, "uniqueItems": True, "minItems": wanted}
        whole = json.dumps({"type": "object", "properties": {"a": part}, "required": ["a"]})
        if wanted == least:
            pastalang.from_schema(whole)
            continue
        with pytest.raises(NotExpressible, match=f"a: {wanted} different items are required"):
            pastalang.from_schema(whole)


@pytest.mark.parametrize(
    ("type", "count"),
    [
        (t.Integer(0, 10, multiple_of=5), 3),
        (t.Integer(-7, 7, multiple_of=3), 5),
        (t.Integer(1, 4, multiple_of=5), 0),
        (t.Integer(0, None), None),
        (t.Regex("a|b|a"), 2),
        (t.Regex("a*"), None),
        (t.String(pattern="x{0,3}"), 4),
        (t.String(), None),
        (t.Union((t.Boolean(), t.Null(), t.Literal("a"))), 4),
        (t.Union((t.Boolean(), t.Number())), None),
        (t.Regex("(?=a)b"), None),
        (t.Number(Decimal(1), Decimal(1)), 1),
        (t.Number(Decimal(1), Decimal(2)), None),
        (t.Object((t.Field("a", t.Boolean()), t.Field("b", t.Literal(1)), t.Field("c", t.Integer(1, 3)))), 6),
        (t.Object((t.Field("a", t.Boolean()), t.Field("b", t.String()))), None),
        (t.Tuple((t.Boolean(), t.Null(), t.Boolean())), 4),
    ],
)
def test_how_many_values_there_are(type: t.Type, count: int | None) -> None:
    assert count_values(type) == count


def test_a_model_that_leaves_nothing_open_is_refused_by_its_name() -> None:
    class Fixed(BaseModel):
        kind: Literal["x"]
        version: Literal[1]

    with pytest.raises(NotExpressible, match="Fixed cannot be expressed"):
        pastalang.from_model(Fixed)
