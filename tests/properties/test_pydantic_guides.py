"""Whatever the logits are, Pydantic takes the value too: the model that the type came from, and the one it gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import Guide
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.values.absent import absent_in, leaving_out_defaults, without_cuts
from pastalang.values.json import parse_json
from pastalang.values.pydantic.from_core import type_of_model, validate_value
from pastalang.values.pydantic.to_model import model_of
from tests.properties.hole_types import SOURCE
from tests.properties.hostile import PICKS, SIMPLE, STRUCTURES, TYPES
from tests.properties.test_guides import decode
from tests.properties.vocabularies import VOCABULARIES
from tests.values.test_pydantic_fields import ENFORCED, Cat, Dog, Tree

LIMITS = (3, 6, 10, 18, 40, 90)


class Line(BaseModel):
    sku: str = Field(pattern="^[A-Z]{2}-[0-9]{2}$")
    quantity: int = Field(ge=1, le=99)
    price: float | None = Field(default=None, gt=0)


class Order(BaseModel):
    model_config = {"extra": "forbid"}

    id: int = Field(alias="order id", ge=1)
    state: Literal["open", "paid", 'un"sent\n']
    lines: list[Line] = Field(min_length=1, max_length=3)
    pet: Cat | Dog | None = Field(discriminator=None)
    tree: Tree
    tags: set[Literal["a", "b", "c"]] = Field(max_length=2)
    pair: tuple[bool, str]
    names: dict[str, int]


class Boat(BaseModel):
    kind: Literal["boat"] = "boat"
    length: float


class Car(BaseModel):
    kind: Literal["car", "van"] = "car"
    color: Literal["red", "blue"] = "red"
    wheels: int = 4


class Truck(BaseModel):
    kind: Literal["truck", "tractor"] = "truck"
    tows: Car | Boat | Truck | None = Field(default=None, discriminator="kind")


class Ride(BaseModel):
    vehicle: Car | Boat | Truck = Field(discriminator="kind")
    spare: Car = Car()


SOURCES: dict[str, Any] = {
    "order": Order, "tree": Tree, "ride": Ride, **{name: case[0] for name, case in ENFORCED.items()}
}  # fmt: skip
AS_IT_IS, EXTRACTED = "as it is", "as `extract` asks for it"
_GUIDES: dict[object, Guide] = {}


@lru_cache
def _converted(name: str, manner: str) -> tuple[t.Type, dict[str, t.Type], TypeAdapter[Any]] | None:
    """None where the model itself checks more than the type says."""
    found = type_of_model(SOURCES[name])
    if manner == EXTRACTED:
        found = leaving_out_defaults(found)
    return None if found.notes else (found.type, dict(found.types), TypeAdapter(SOURCES[name]))


def _guide(key: object, type: t.Type, types: dict[str, t.Type], tokens: Tokens) -> Guide:
    if key not in _GUIDES:
        sources = {"source": SOURCE}
        _GUIDES[key] = compile_guide(
            type, form=Form.JSON, follow=",\n", vocabulary=tokens, types=types, sources=sources
        )
    return _GUIDES[key]


def _check_sources(kind: str, count: int, seed: int, names: Sequence[str] = tuple(SOURCES)) -> None:
    tokens, rng = VOCABULARIES[kind](), random.Random(f"sources {seed}")
    for _ in range(count):
        name, pick, limit = rng.choice(names), rng.choice(sorted(PICKS)), rng.choice(LIMITS)
        manner = rng.choice((AS_IT_IS, EXTRACTED))
        if (found := _converted(name, manner)) is None:
            continue
        type, types, adapter = found
        state = decode(_guide((kind, name, manner), type, types, tokens), limit, PICKS[pick], tokens, rng)
        if state is not None:
            adapter.validate_json(without_cuts(state.text, absent_in(state.text, type, types)))


def _check_given(kind: str, count: int, seed: int) -> None:
    tokens, rng = VOCABULARIES[kind](), random.Random(f"given {seed}")
    for _ in range(count):
        type, pick, limit = rng.choice(SIMPLE + STRUCTURES), rng.choice(sorted(PICKS)), rng.choice(LIMITS)
        state = decode(_guide((kind, type), type, TYPES, tokens), limit, PICKS[pick], tokens, rng)
        if state is not None:
            validate_value(TypeAdapter(_model(type)), parse_json(state.text))


@lru_cache
def _model(type: t.Type) -> type[BaseModel]:
    return model_of(type, TYPES)


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_the_model_that_a_type_came_from_takes_every_value(kind: str) -> None:
    _check_sources(kind, 150, seed=0)


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_a_model_takes_a_value_without_the_keys_that_are_left_out(kind: str) -> None:
    _check_sources(kind, 60, seed=0, names=("ride",))


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_the_model_that_a_type_gives_takes_every_value(kind: str) -> None:
    _check_given(kind, 250, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("seed", range(1, 6))
def test_models_take_every_value_at_length(kind: str, seed: int) -> None:
    _check_sources(kind, 2_000, seed)
    _check_given(kind, 2_000, seed)
