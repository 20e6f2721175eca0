"""What a Pydantic model objects to, and which fields that is about."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, Field, RootModel, create_model, field_validator, model_validator
from pydantic.types import Discriminator, Tag
from pydantic_core import PydanticCustomError

from pastalang import Engine, Invalid, Sampling, ValidatorFailed
from pastalang.runtime.repair.validation import Objection, validate, validator_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FedToken, scripted_model
from pastalang.values.json import JsonValue, parse_json, places_of
from tests.runtime.repair.test_review import engine, program

WARM = Sampling(temperature=1.0)
THREE = program("  a: integer(0..9)\n  b: integer(0..9)\n  c: integer(0..9)")


class Three(BaseModel):
    a: int
    b: int
    c: int


class Ordered(Three):
    @model_validator(mode="after")
    def judge(self) -> Ordered:
        if self.a > 99 or self.b < 100:
            raise ValueError("b is too small")
        return self


def objections(model: type[BaseModel], text: str) -> tuple[Objection, ...]:
    return validate(validator_of(model), parse_json(text))[1]


def again(model: type[BaseModel], asked: Any = THREE) -> set[str]:
    """The fields that are decoded again when a model objects to them every time."""
    with pytest.raises(Invalid) as caught:
        engine().run(asked, {}, sampling=WARM, model=model, repair=1)
    return {field.path for field in caught.value.result.fields if field.attempts > 1}


def test_the_value_is_the_model() -> None:
    class Model(BaseModel):
        a: Decimal
        b: int
        c: str = Field(coerce_numbers_to_str=True)

    result = engine().run(THREE, {}, sampling=WARM, model=Model)
    plain = engine().run(THREE, {}, sampling=WARM)
    assert isinstance(result.value, Model) and result.value.c == str(plain.value["c"])
    assert result.text == plain.text and result.usage.repair_passes == 0
    assert isinstance(plain.value, dict)


def test_a_validator_of_the_whole_concerns_the_fields_that_it_reads() -> None:
    assert again(Ordered) == {"a", "b"}


def test_a_validator_before_the_model_concerns_the_keys_that_it_reads() -> None:
    class Model(Three):
        @model_validator(mode="before")
        @classmethod
        def judge(cls, data: Any) -> Any:
            if data["c"] < 100:
                raise ValueError("too small")
            return data

    assert again(Model) == {"c"}


def test_a_validator_that_tells_nothing_concerns_the_whole_object() -> None:
    class Model(Three):
        @model_validator(mode="after")
        def judge(self) -> Model:
            assert sum(self.model_dump().values()) > 1000, "the sum is too small"
            return self

    assert again(Model) == {"a", "b", "c"}


@pytest.mark.parametrize("by_alias", [True, False])
def test_an_alias_is_a_key_of_the_answer(by_alias: bool) -> None:
    class Model(BaseModel, validate_by_name=True, loc_by_alias=by_alias):
        first: int = Field(validation_alias=AliasChoices("zz", "a"))
        c: int = Field(alias="b")
        third: int = Field(alias="c")

        @field_validator("c")
        @classmethod
        def judge(cls, value: int) -> int:
            raise ValueError("never")

    assert again(Model) == {"b"}

    class Whole(BaseModel):
        first: int = Field(alias="a")
        b: int
        c: int

        @model_validator(mode="after")
        def judge(self) -> Whole:
            raise ValueError(f"never {self.first}")

    assert again(Whole) == {"a"}


def test_a_place_inside_a_value_that_one_hole_wrote_is_that_hole() -> None:
    asked = program('  tags: ["x" | "y"](2..3, max_tokens=30)\n  other: integer(0..9)')

    class Model(BaseModel):
        tags: list[Literal["x", "y", "z"]]
        other: int

        @field_validator("tags")
        @classmethod
        def judge(cls, value: list[str]) -> list[str]:
            raise ValueError("never")

    assert again(Model, asked) == {"tags"}


def test_a_nested_object_is_all_of_its_fields() -> None:
    asked = program("  price: { amount: integer(0..9), unit: string(max=3) }\n  other: integer(0..9)")

    class Model(BaseModel):
        price: dict[str, Any]
        other: int

        @field_validator("price")
        @classmethod
        def judge(cls, value: Any) -> Any:
            raise ValueError("never")

    assert again(Model, asked) == {"price.amount", "price.unit"}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ((), None),
        (("a",), "[1, {\"b\": \"}\"}]"),
        (("a", 1), '{"b": "}"}'),
        (("a", 1, "function-after[f(), X]", "b"), '"}"'),
        (("a", 7), "[1, {\"b\": \"}\"}]"),
        (("ключ\n",), "-1.5e3"),
        (("missing",), None),
        (("e",), "{}"),
    ],
)  # fmt: skip
def test_a_path_leads_to_a_span_of_the_text(path: tuple[str | int, ...], part: str | None) -> None:
    text = '{\n  "a": [1, {"b": "}"}],\n  "ключ\\n": -1.5e3, "e": {}\n}'
    assert json.loads(text)
    place = places_of(text).at(path).place
    assert text[place.start : place.end] == (text if part is None else part)


def test_errors_are_told_in_the_words_of_the_validator() -> None:
    [one] = objections(Ordered, '{"a": 1, "b": 2, "c": 3}')
    assert one.reason == "b is too small" and one.path == ()
    missing, wrong = objections(Ordered, '{"a": "x", "b": 2}')[::-1]
    assert (missing.path, wrong.path) == (("c",), ("a",))


def breaking(problem: BaseException) -> type[BaseModel]:
    class Model(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def judge(cls, value: int) -> int:
            raise problem

    return Model


@pytest.mark.parametrize("is_tagged", [False, True])
def test_of_a_union_only_the_arm_that_was_meant_objects(is_tagged: bool) -> None:
    either: Any = Annotated[breaking(ValueError("never")), Tag("x")] | Annotated[Three, Tag("y")]
    item = Annotated[either, Discriminator(lambda _: "x")] if is_tagged else either
    model = create_model("Model", all=(list[item], ...))
    assert [(one.path, one.reason) for one in objections(model, '{"all": [{"a": 1}]}')] == [(("all", 0, "a"), "never")]
    assert ("all", 0, "a") in [one.path for one in objections(model, '{"all": [{"b": 1}]}')], "nothing of it fits"


MUTE: Exception = type("Mute", (Exception,), {"__str__": lambda problem: problem.none})()


@pytest.mark.parametrize(
    "problem", [ZeroDivisionError("x"), RecursionError("deep"), KeyError("k"), TypeError("t"), MUTE]
)
def test_a_validator_that_breaks_is_an_error_of_its_own(problem: Exception) -> None:
    runner = engine(prefix_cells=0)
    with pytest.raises(ValidatorFailed, match=type(problem).__name__) as caught:
        runner.run(THREE, {}, model=breaking(problem), repair=3)
    assert caught.value.__cause__ is problem and caught.value.code == "validator_failed"
    runner.check_integrity()
    assert runner.scheduler.memory.cells.in_use == 0


def test_a_broken_validator_does_not_harm_other_requests() -> None:
    class Model(Three):
        @field_validator("a")
        @classmethod
        def judge(cls, value: int) -> int:
            return 1 // value

    found = [one for seed in range(8) for one in engine().batch(THREE, [{}, {}], seed=seed, sampling=WARM, model=Model)]
    assert all(isinstance(one, ValidatorFailed) or isinstance(one.value, Model) for one in found)  # type: ignore[union-attr]


def test_a_validator_that_changes_the_value_is_taken_at_its_word() -> None:
    class Model(Three):
        @model_validator(mode="before")
        @classmethod
        def change(cls, data: dict[str, Any]) -> dict[str, Any]:
            data["a"] = 777
            return data

    result = engine().run(THREE, {}, sampling=WARM, model=Model)
    assert result.value.a == 777 and json.loads(result.text)["a"] < 10


@pytest.mark.parametrize("type", ["number", "integer | number"])
def test_a_strict_model_reads_numbers_as_they_are_written(type: str) -> None:
    class Strict(BaseModel):
        a: int = Field(strict=True)

    class Exact(BaseModel):
        a: float = Field(strict=True)

    def next_token(fed: FedToken) -> int:
        written = bytes(one.token for one in fed.path if one.token < 256).decode().rpartition('"a": ')[2]
        return ord("25.0\n"[len(written)])

    runner = Engine(scripted_model(next_token, 320), byte_tokenizer())
    result = runner.run(program(f"  a: {type}"), {}, model=Exact)
    assert json.loads(result.text) == {"a": 25.0} and "25.0" in result.text
    assert result.value == Exact.model_validate_json(result.text)
    with pytest.raises(Invalid, match="valid integer"):
        runner.run(program(f"  a: {type}"), {}, model=Strict, repair=0)


def test_a_validator_that_returns_something_else_is_an_error() -> None:
    class Model(BaseModel):
        a: int

        @model_validator(mode="wrap")
        @classmethod
        def judge(cls, data: Any, handler: Any) -> Any:
            return {"not": "a model"}

    with pytest.raises(ValidatorFailed, match="returned dict instead of the model"):
        validate(validator_of(Model), {"a": 1})


def test_a_root_model_of_a_list_is_validated() -> None:
    class Model(RootModel[list[int]]):
        pass

    value: JsonValue = [1, 2]
    assert validate(validator_of(Model), value) == (Model([1, 2]), ())


@pytest.mark.parametrize(
    ("model", "text", "value"),
    [(list[date], '["2024-02-29"]', [date(2024, 2, 29)]), (int | None, "null", None), (Literal["a", 1], "1", 1)],
)
def test_any_type_that_pydantic_knows_validates(model: Any, text: str, value: Any) -> None:
    assert validate(validator_of(model), parse_json(text)) == (value, ())
    assert validate(validator_of(model), parse_json("[[]]"))[1]


def test_a_model_of_other_keys_is_told_what_is_missing() -> None:
    class Model(BaseModel):
        nothing: int

    with pytest.raises(Invalid, match="nothing: Field required"):
        engine().run(THREE, {}, model=Model)


def test_what_a_validator_says_may_be_no_text_at_all() -> None:
    class Odd(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def judge(cls, value: int) -> int:
            raise PydanticCustomError("odd", "bad {it}", {"it": "\ud800"})

    with pytest.raises(ValidatorFailed, match="a validator of `Odd` raised UnicodeEncodeError"):
        engine().run(program("  a: integer(0..9)"), {}, sampling=WARM, model=Odd, repair=1)
