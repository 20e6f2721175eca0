"""Validators: what they reject is decoded again, what they do not concern stays, and what is raised in the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, field_validator, model_validator

import pastalang
from tests.api.engines import WARM, hashing, json_program, uniform

FIELDS = json_program("  a: integer(0..9)\n  b: integer(0..9)\n  c: integer(0..9) after a\n  d: string(max=4)")
WARMLY: dict[str, Any] = {"sampling": WARM, "on_truncated": "keep"}


class Even(BaseModel):
    a: int
    b: int
    c: int
    d: str

    @field_validator("a")
    @classmethod
    def judge(cls, a: int) -> int:
        if a % 2:
            raise ValueError("only even numbers")
        return a


class Never(Even):
    @field_validator("b")
    @classmethod
    def refuse(cls, b: int) -> int:
        raise ValueError("nothing is right")


def test_a_rejected_field_is_decoded_again_with_what_waits_for_it() -> None:
    repaired = 0
    for seed in range(10):
        plain = hashing(seed).run(FIELDS, seed=seed, **WARMLY)
        found = hashing(seed).run(FIELDS, seed=seed, model=Even, repair=20, **WARMLY)
        assert isinstance(found.value, Even) and found.value.a % 2 == 0
        assert (found.value.b, found.value.d) == (plain.value["b"], plain.value["d"])
        again = {field.where: field.attempts for field in found.fields if field.attempts > 1}
        assert again.keys() in (set(), {"a"}, {"a", "c"}) and bool(again) == bool(plain.value["a"] % 2)
        assert found.usage.repair_tokens < found.usage.output_tokens
        repaired += bool(again)
    assert repaired >= 3


def test_what_stays_wrong_is_raised_with_everything() -> None:
    with pytest.raises(pastalang.Invalid, match=r"the answer is not valid: b: .*nothing is right") as raised:
        uniform().run(FIELDS, model=Never, repair=2, on_truncated="keep")
    error = raised.value
    assert (error.code, error.field) == ("invalid", "b") and error.problems[0].attempts == 3
    assert error.result.field("b").attempts == 3 and error.result.usage.output_tokens


def test_an_answer_that_stays_wrong_can_be_kept() -> None:
    found = uniform().run(FIELDS, model=Never, keep_invalid=True, on_truncated="keep")
    assert [problem.where for problem in found.problems] == ["b"] and isinstance(found.problems[0], pastalang.Problem)
    assert "nothing is right" in str(found.field("b").problem) and found.field("a").problem is None


def test_without_attempts_nothing_is_decoded_again() -> None:
    with pytest.raises(pastalang.Invalid) as raised:
        uniform().run(FIELDS, model=Never, on_truncated="keep")
    assert raised.value.result.usage.repair_passes == 0


def test_a_rule_over_several_fields_decodes_those_that_it_reads() -> None:
    class Sum(BaseModel):
        a: int
        b: int
        c: int
        d: str

        @model_validator(mode="after")
        def adds_up(self) -> Sum:
            if self.a + self.b < 8:
                raise ValueError("a and b are too small")
            return self

    repaired = 0
    for seed in range(6):
        found = hashing(seed).run(FIELDS, model=Sum, repair=30, seed=seed, **WARMLY)
        assert found.value.a + found.value.b >= 8 and found.field("d").attempts == 1
        repaired += found.field("a").attempts > 1
    assert repaired


def test_the_model_reads_why_a_value_was_rejected() -> None:
    events = list(uniform().stream(FIELDS, model=Never, repair=1, on_truncated="keep"))
    again = [event for event in events if isinstance(event, pastalang.FieldAgain)]
    assert [one.where for one in again] == ["b"] and "nothing is right" in again[0].reason
    with pytest.raises(pastalang.Invalid) as raised:
        uniform().run(FIELDS, model=Never, repair=1, on_truncated="keep")
    assert any("// not accepted: nothing is right" in one.text for one in raised.value.result.trace.fed)


@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_a_validator_may_run_another_engine_but_not_the_one_that_decodes(is_asynchronous: bool) -> None:
    engine, other = uniform(), uniform()

    class Asking(Even):
        @field_validator("d")
        @classmethod
        def ask(cls, d: str) -> str:
            if is_asynchronous:
                return asyncio.run(engine.arun(FIELDS, model=Asking, on_truncated="keep")).text
            return engine.run(FIELDS, model=Asking, on_truncated="keep").text

    with pytest.raises(pastalang.ValidatorFailed, match="cannot be run from inside one of its own steps"):
        engine.run(FIELDS, model=Asking, on_truncated="keep", keep_invalid=True)

    class Telling(Even):
        @field_validator("d")
        @classmethod
        def ask(cls, d: str) -> str:
            return other.run(FIELDS, on_truncated="keep").text

    found = engine.run(FIELDS, model=Telling, on_truncated="keep", keep_invalid=True)
    assert found.text and engine.run(FIELDS, on_truncated="keep").value


def test_a_check_of_a_schema_is_repaired_too() -> None:
    schema = '{"enum": ["a", "b", "c", "d"], "not": {"pattern": "[ab]"}}'
    program = json_program(f'  a: schema("""{schema}""", max_tokens=20)')
    for seed in range(4):
        assert hashing(seed).run(program, seed=seed, repair=30, **WARMLY).value["a"] in ("c", "d")


@pytest.mark.parametrize("options", [{"repair": 2}, {"keep_invalid": True}])
def test_without_a_validator_there_is_nothing_to_repair(options: Any) -> None:
    with pytest.raises(pastalang.BadInputs, match="without `model` nothing is checked"):
        uniform().run(FIELDS, **options)
