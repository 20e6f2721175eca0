"""The Pydantic model of a type: names, aliases, defaults and exact numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic import BaseModel, Field, RootModel, TypeAdapter, ValidationError

from pastalang.program import types as t
from pastalang.values.fit import read
from pastalang.values.pydantic.from_core import type_of_model, validate_value
from pastalang.values.pydantic.to_model import model_of

KEYS = t.Object(
    (
        t.Field("first-key", t.Integer(), name="first_key", description="the first"),
        t.Field("class", t.Integer()),
        t.Field("json", t.Integer()),
        t.Field("_private", t.Integer()),
        t.Field("1", t.Integer()),
        t.Field("a b", t.Integer(), default=t.Default("7")),
        t.Field("model_name", t.Integer(), default=t.Default("8")),
    ),
    description="Odd keys.",
)


def test_keys_that_are_no_python_names_become_aliases() -> None:
    model = model_of(KEYS, name="Odd")
    value = model.model_validate_json('{"first-key":1,"class":2,"json":3,"_private":4,"1":5}')
    assert value.model_dump() == {
        "first_key": 1, "class_": 2, "json_": 3, "private": 4, "field_1": 5, "a_b": 7, "model_name": 8,
    }  # fmt: skip
    assert value.model_dump(by_alias=True)["first-key"] == 1
    assert model.model_fields["first_key"].description == "the first"
    assert model.__doc__ == "Odd keys."
    assert model(first_key=1, **{"class": 2}, json_=3, private=4, field_1=5) == value


def test_unknown_keys_are_refused_by_the_model_too() -> None:
    with pytest.raises(ValidationError):
        model_of(t.Object((t.Field("a", t.Integer()),))).model_validate_json('{"a":1,"b":2}')


def test_a_type_that_is_no_object_becomes_a_root_model() -> None:
    model = model_of(t.Array(t.Integer(), max_items=2))
    assert issubclass(model, RootModel)
    assert model.model_validate_json("[1,2]").root == [1, 2]


def test_recursive_types_of_every_shape_come_back() -> None:
    types: dict[str, t.Type] = {
        "Json": t.Union((t.String(), t.Null(), t.Array(t.Named("Json")), t.Map(t.Named("Json")))),
        "Even": t.Object((t.Field("odd", t.Union((t.Named("Odd"), t.Null()))),)),
        "Odd": t.Object((t.Field("even", t.Named("Even")),)),
    }
    tree = model_of(t.Named("Json"), types)
    tree.model_validate_json('["a",{"b":[null]}]')
    with pytest.raises(ValidationError):
        tree.model_validate_json('["a",{"b":[1]}]')
    even = model_of(t.Named("Even"), types)
    even.model_validate_json('{"odd":{"even":{"odd":null}}}')
    with pytest.raises(ValidationError):
        even.model_validate_json('{"odd":{"even":null}}')


def test_a_model_remembers_the_type_it_came_from() -> None:
    assert type_of_model(model_of(KEYS)).type == KEYS

    class More(model_of(KEYS)):  # type: ignore[misc]
        extra: int

    assert type_of_model(More).type != KEYS


def test_steps_of_decimals_are_exact() -> None:
    model = model_of(t.Number(multiple_of=Decimal("0.1")))
    model.model_validate_json("0.3")
    with pytest.raises(ValidationError):
        model.model_validate_json("0.35")


def test_a_decimal_keeps_its_digits_on_the_way_into_a_model() -> None:
    class Price(BaseModel):
        exact: Decimal
        near: float
        limit: Decimal = Field(default=Decimal("0.10"))

    found = type_of_model(Price)
    digits = "0.1000000000000000000000000001"
    value = read(f'{{"exact":{digits},"near":0.5}}', found.type).value
    assert validate_value(TypeAdapter(Price), value) == Price(exact=Decimal(digits), near=0.5, limit=Decimal("0.1"))
