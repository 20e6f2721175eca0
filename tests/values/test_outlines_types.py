"""Every type that outlines brings is a hole type, or is refused by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from outlines import types as ot
from outlines.types.dsl import CFG, JsonSchema, python_types_to_terms
from pydantic import BaseModel

import pastalang
from pastalang import Engine, NotExpressible, Sampling
from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.values.outlines_types import from_outlines
from pastalang.values.pydantic.from_core import type_of_model

TOKENS = Tokens(vocabulary_of(byte_tokenizer(words=["12", "ab", "-0"])))
BUILT_IN = {name: term for name in ot.__all__ if isinstance(term := getattr(ot, name), ot.Regex)}
BUILT_IN |= {"us.zip_code": ot.locale.us.zip_code, "us.phone_number": ot.locale.us.phone_number}
REFUSED = {"isbn": "look-around"}


def _written(type: t.Type, seed: int) -> str:
    state = compile_guide(type, form=Form.TEXT, follow="", vocabulary=TOKENS).start(max_tokens=400)
    rng = random.Random(seed)
    while not state.is_finished:
        state.advance(int(rng.choice(tokens_of(state.allowed()))))
    return state.text


@pytest.mark.parametrize("name", sorted(BUILT_IN.keys() - REFUSED.keys()))
def test_what_is_written_under_a_built_in_type_is_what_outlines_matches(name: str) -> None:
    type = from_outlines(BUILT_IN[name], name=name).type
    assert all(BUILT_IN[name].matches(_written(type, seed)) for seed in range(3))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_our_patterns_cannot_express_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotExpressible, match=f"{name} cannot be enforced: {REFUSED[name]}"):
        from_outlines(BUILT_IN[name], name=name)


def test_a_grammar_is_refused_by_name() -> None:
    with pytest.raises(NotExpressible, match="the sum is a grammar"):
        from_outlines(CFG("start: /[0-9]+/"), name="the sum")


def test_choices_are_literals() -> None:
    assert from_outlines(ot.Choice(["tv", "phone", "tv"])).type == t.Union((t.Literal("tv"), t.Literal("phone")))
    assert from_outlines(ot.either("a.b", "c")).type == t.Union((t.Literal("a.b"), t.Literal("c")))
    assert from_outlines(python_types_to_terms(t.Moment)).type == t.Union(
        (t.Literal("date"), t.Literal("datetime"), t.Literal("time"))
    )


@pytest.mark.parametrize(
    "term",
    [
        ot.regex("[a-c]{2}") + "-" + ot.exactly(3, ot.digit),
        ot.at_least(2, "ab") | ot.digit,
        ot.at_most(2, ot.hex_color),
        ot.between(1, 3, "x") + ot.optional("y") + ot.zero_or_more("z") + ot.one_or_more("."),
        ot.regex(r"[^\w]\W{2}[\W_]") + ot.regex(r"\S\D"),
    ],
    ids=["sequence", "alternatives", "at most", "quantifiers", "complements"],
)
def test_terms_of_the_pattern_language_are_patterns(term: ot.Regex) -> None:
    type = from_outlines(term).type
    assert isinstance(type, t.Regex)
    assert all(term.matches(_written(type, seed)) for seed in range(5))


class Phone(BaseModel):
    brand: str
    year: int


def test_schemas_are_hole_types() -> None:
    found = from_outlines(JsonSchema(Phone)).type
    assert isinstance(found, t.Object)
    assert [field.key for field in found.fields] == ["brand", "year"]
    with pytest.raises(NotExpressible, match="a phone cannot be enforced"):
        from_outlines(JsonSchema({"$ref": "https://example.com/phone"}), name="a phone")


def test_a_pydantic_model_may_have_fields_of_outlines_types() -> None:
    class Device(BaseModel):
        address: ot.mac_address  # type: ignore[valid-type]

    found = type_of_model(Device).type
    assert isinstance(found, t.Object)
    (field,) = found.fields
    assert isinstance(field.type, t.Regex)
    assert ot.mac_address.matches(_written(field.type, 0))

    class Mark(BaseModel):
        mark: ot.regex(r"\W{3}")  # type: ignore[valid-type]

    (field,) = type_of_model(Mark).type.fields  # type: ignore[union-attr]
    assert all(Mark(mark=_written(field.type, seed)) for seed in range(5))

    class Book(BaseModel):
        number: ot.isbn  # type: ignore[valid-type]

    with pytest.raises(NotExpressible, match=r"number: .*look-around"):
        type_of_model(Book)


def test_a_term_annotates_a_text_and_may_stand_in_lists() -> None:
    class Device(BaseModel):
        kind: Annotated[str, ot.Choice(["tv", "phone"])]
        code: ot.Regex("[0-9]{3}")  # type: ignore[valid-type]
        dates: list[Annotated[str, ot.date]]

    engine = Engine(hashed_model(320, seed=3), byte_tokenizer())
    program = pastalang.from_model(Device)
    for seed in range(5):
        value = engine.run(program, {"text": "x"}, seed=seed, sampling=Sampling(temperature=1.0), model=Device).value
        assert isinstance(value, Device) and value.kind in ("tv", "phone")

    class Wrong(BaseModel):
        code: ot.Regex("[0-9]") | None  # type: ignore[valid-type]

    with pytest.raises(NotExpressible, match=r"code: .* has no pattern .* use `Field\(pattern=...\)`"):
        type_of_model(Wrong)


@pytest.mark.parametrize(
    ("term", "is_right"),
    [
        (ot.date, lambda value: ot.date.matches(value)),
        (ot.either("tv", "phone"), lambda value: value in ("tv", "phone")),
        (JsonSchema(Phone), lambda value: list(value) == ["brand", "year"]),
    ],
    ids=["pattern", "choice", "schema"],
)
def test_a_type_of_outlines_is_what_a_program_answers_with(term: object, is_right: Callable[[Any], bool]) -> None:
    engine = Engine(hashed_model(320, seed=3), byte_tokenizer())
    assert is_right(engine.run(pastalang.from_outlines(term), {"text": "x"}, sampling=Sampling(temperature=1.0)).value)


def test_terms_may_stand_inside_every_kind_of_container() -> None:
    @dataclass
    class Inner:
        day: ot.date  # type: ignore[valid-type]

    class Outer(BaseModel):
        days: list[ot.date]  # type: ignore[valid-type]
        pair: tuple[ot.date, int]  # type: ignore[valid-type]
        inner: list[Inner]
        by_code: dict[ot.Regex("[a-z]{3}"), int]  # type: ignore[valid-type]
        by_kind: dict[ot.Choice(["a.b", "c"]), int]  # type: ignore[valid-type]

    date = from_outlines(ot.date).type
    assert isinstance(date, t.Regex)
    found = type_of_model(Outer).type
    assert isinstance(found, t.Object)
    days, pair, inner, by_code, by_kind = (field.type for field in found.fields)
    assert days == t.Array(date) and pair == t.Tuple((date, t.Integer()))
    assert isinstance(inner, t.Array) and isinstance(inner.item, t.Object) and inner.item.fields[0].type == date
    assert by_code == t.Map(t.Integer(), "([a-z]{3})") and by_kind == t.Map(t.Integer(), r"a\.b|c")
    assert Outer.model_fields.keys() == {field.key for field in found.fields}


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (ot.Regex("[0-9]{3}") | None, t.Union((t.Regex("([0-9]{3})"), t.Null()))),
        (ot.Choice(["a", "b"]) | None, t.Union((t.Literal("a"), t.Literal("b"), t.Null()))),
        (list[ot.Regex("[0-9]{3}")], t.Array(t.Regex("([0-9]{3})"))),  # type: ignore[misc]
        (dict[str, ot.Regex("[0-9]{3}")], t.Map(t.Regex("([0-9]{3})"))),  # type: ignore[misc]
    ],
    ids=["pattern or null", "choice or null", "list", "dict"],
)
def test_terms_may_be_null_or_inside_a_python_type(type: Any, expected: t.Type) -> None:
    body = pastalang.from_outlines(type).templates["answer"].messages[-1].body
    assert isinstance(body, JsonBody) and body.type == expected


def test_a_term_is_a_model_without_fields() -> None:
    assert pastalang.from_model(ot.date).templates.keys() == {"answer"}  # type: ignore[arg-type]
    assert pastalang.from_model(ot.date, name="day").templates.keys() == {"day"}  # type: ignore[arg-type]


def test_a_grammar_in_a_field_is_refused_by_name() -> None:
    class Sum(BaseModel):
        text: CFG("start: /[0-9]+/")  # type: ignore[valid-type]

    with pytest.raises(NotExpressible, match="text: a grammar of outlines cannot be enforced"):
        type_of_model(Sum)


def test_a_type_of_outlines_that_cannot_be_enforced_is_refused_like_a_model() -> None:
    with pytest.raises(NotExpressible, match="the number cannot be enforced: look-around"):
        pastalang.from_outlines(ot.isbn, name="the number")
    with pytest.raises(NotExpressible, match="answer is not a type of outlines: str"):
        pastalang.from_outlines("a text")
