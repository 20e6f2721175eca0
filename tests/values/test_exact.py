"""A number of more digits than a float has keeps them in a `Decimal`, and is a number wherever a model has none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import make_dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    RootModel,
    StrictFloat,
    TypeAdapter,
    ValidationError,
    create_model,
)
from typing_extensions import TypedDict

from pastalang.values.json import JsonValue
from pastalang.values.pydantic.from_core import validate_value

DIGITS = st.integers(10**20, 10**30).map(lambda whole: Decimal(f"{whole}1e-25"))

EXACT: dict[str, Any] = {
    "a decimal": Decimal,
    "one within bounds": Annotated[Decimal, Field(ge=-(10**9), max_digits=60)],
    "one or nothing": Decimal | None,
    "one or a string": Decimal | str,
    "a float or one": float | Decimal,
    "a validator's": Annotated[Decimal, BeforeValidator(lambda value: value)],
}
NEAR: dict[str, Any] = {
    "anything": Any,
    "a float": float,
    "a strict float": StrictFloat,
    "a float or a string": float | str,
    "an integer or a float": int | float,
    "anything or a decimal": Any | Decimal,  # type: ignore[operator]
    "a validator's float": Annotated[float, BeforeValidator(lambda value: value)],
}


class Tagged(BaseModel):
    kind: Literal["other"]
    x: Any


def _tagged(leaf: Any) -> Any:
    own = create_model("Own", kind=(Literal["own"], "own"), x=(leaf, ...))
    return Annotated[Tagged | own, Field(discriminator="kind")]


def _recursive(leaf: Any) -> Any:
    return create_model("Node", x=(leaf, ...), next=("Node | None", None))


def _typed_dict(leaf: Any) -> Any:
    return TypedDict("Record", {"x": leaf})  # type: ignore[operator]


def _x(found: Any) -> Any:
    return found.x


# the type that holds the leaf, the JSON value around a number, and the way back to it
Held = tuple[Callable[[Any], Any], Callable[[JsonValue], JsonValue], Callable[[Any], Any]]
HOLDERS: dict[str, Held] = {
    "itself": (lambda leaf: leaf, lambda x: x, lambda found: found),
    "a list": (lambda leaf: list[leaf], lambda x: [x], lambda found: found[0]),
    "a sequence": (lambda leaf: Sequence[leaf], lambda x: [x], lambda found: found[0]),
    "a set": (lambda leaf: set[leaf], lambda x: [x], lambda found: found.pop()),
    "a tuple": (lambda leaf: tuple[str, leaf], lambda x: ["a", x], lambda found: found[1]),
    "a tuple of any length": (lambda leaf: tuple[leaf, ...], lambda x: [1, 2, x], lambda found: found[2]),
    "a named tuple": (
        lambda leaf: NamedTuple("Pair", [("a", str), ("x", leaf)]), lambda x: ["a", x], _x,
    ),
    "a dict": (lambda leaf: dict[str, leaf], lambda x: {"k": x}, lambda found: found["k"]),
    "a mapping": (lambda leaf: Mapping[str, leaf], lambda x: {"k": x}, lambda found: found["k"]),
    "a model": (lambda leaf: create_model("M", a=(str, ...), x=(leaf, ...)), lambda x: {"a": "", "x": x}, _x),
    "a key": (
        lambda leaf: create_model("M", a=(str, Field(alias="x")), x=(leaf, Field(alias="y"))),
        lambda x: {"x": "", "y": x},
        _x,
    ),
    "one of several keys": (
        lambda leaf: create_model("M", x=(leaf, Field(validation_alias=AliasChoices("a", "b")))),
        lambda x: {"b": x},
        _x,
    ),
    "a root": (lambda leaf: RootModel[leaf], lambda x: x, lambda found: found.root),
    "a dataclass": (lambda leaf: make_dataclass("D", [("x", leaf)]), lambda x: {"x": x}, _x),
    "a typed dict": (_typed_dict, lambda x: {"x": x}, lambda found: found["x"]),
    "a member of a union": (_tagged, lambda x: {"kind": "own", "x": x}, _x),
    "a model inside itself": (_recursive, lambda x: {"x": 0, "next": {"x": x}}, lambda found: found.next.x),
}  # fmt: skip


@lru_cache
def _adapter(holder: str, leaf: str) -> TypeAdapter[Any]:
    return TypeAdapter(HOLDERS[holder][0]((EXACT | NEAR)[leaf]))


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("leaf", [*EXACT, *NEAR])
@settings(max_examples=5)
@given(digits=DIGITS)
def test_digits_are_kept_by_decimals_alone(holder: str, leaf: str, digits: Decimal) -> None:
    _, around, back = HOLDERS[holder]
    found = back(validate_value(_adapter(holder, leaf), around(digits)))
    wanted = digits if leaf in EXACT else float(digits)
    assert (type(found), found) == (type(wanted), wanted)


def test_a_number_is_no_string_and_an_integer_keeps_its_digits() -> None:
    exact = Decimal("0.12345678901234567891")
    assert validate_value(TypeAdapter(deque[Decimal]), [exact]) == deque([exact])
    with pytest.raises(ValidationError):
        validate_value(TypeAdapter(int | str), exact)
    assert validate_value(TypeAdapter(int), Decimal("9007199254740993.0")) == 9007199254740993
    assert validate_value(TypeAdapter(dict[str, Any]), {"x": Decimal("1e400")}) == {"x": float("inf")}
