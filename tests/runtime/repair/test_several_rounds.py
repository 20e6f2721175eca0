"""Repairs behind repairs: what was decoded again is taken up once more, counted, judged and seen like the first."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator, model_validator

from pastalang import Engine, Invalid, Mode, Sampling
from tests.runtime.repair.test_review import GROUP, LINES, WARM, engine, fakes, program, refusing


def test_an_item_before_the_one_that_a_list_was_taken_up_at_can_be_decoded_again_after_it() -> None:
    plain = engine().run(LINES, {}, sampling=WARM).value["lines"]
    rounds: list[Any] = []

    class Line(BaseModel):
        name: str
        amount: int
        sum: int

        @field_validator("name")
        @classmethod
        def judge_name(cls, value: str) -> str:
            assert value != plain[2]["name"], "wrong name"
            return value

        @field_validator("amount")
        @classmethod
        def judge_amount(cls, value: int) -> int:
            assert len(rounds) < 2 or value != plain[0]["amount"], "wrong amount"
            return value

    class Model(BaseModel):
        lines: list[Line]
        total: int

        @model_validator(mode="before")
        @classmethod
        def count(cls, value: Any) -> Any:
            rounds.append(value)
            return value

    assert all(plain[0]["amount"] != line["amount"] for line in plain[1:])
    assert all(plain[2]["name"] != line["name"] for line in (*plain[:2], *plain[3:]))
    result = engine().run(LINES, {}, sampling=WARM, model=Model, repair=9)
    assert result.value.lines[0].amount != plain[0]["amount"] and result.value.lines[2].name != plain[2]["name"]
    assert result.value.lines[1].amount == plain[1]["amount"]


def test_attempts_count_how_often_a_field_was_decoded() -> None:
    """Of what stands one behind another in a branch, some is decoded again less often than the branch is."""
    plain = engine().run(GROUP, {}, sampling=WARM).value

    class Picky(BaseModel):
        a: Any
        b: Any
        c: Any
        d: Any

        @model_validator(mode="after")
        def judge_last(self) -> Picky:
            assert self.c != plain["c"]
            return self

        @model_validator(mode="after")
        def judge_middle(self) -> Picky:
            assert self.b != plain["b"]
            return self

    result = engine().run(GROUP, {}, sampling=WARM, model=Picky, repair=4)
    assert result.usage.attempts == 2
    assert {field.path: field.attempts for field in result.fields} == {"a": 1, "b": 2, "c": 3, "d": 1}


def test_a_list_is_decoded_again_from_its_beginning_whatever_of_it_was_before() -> None:
    plain = engine().run(LINES, {}, sampling=WARM).value["lines"]

    class Line(BaseModel):
        name: Any
        amount: Any
        sum: Any

        @field_validator("name")
        @classmethod
        def judge(cls, name: Any) -> Any:
            assert name != plain[1]["name"]
            return name

    class Picky(BaseModel):
        lines: list[Line]
        total: Any

        @field_validator("lines")
        @classmethod
        def judge(cls, lines: list[Line]) -> list[Line]:
            assert lines[0].name != plain[0]["name"]
            return lines

    result = engine().run(LINES, {}, sampling=WARM, model=Picky, repair=2)
    assert result.usage.attempts == 2
    names = [field for field in result.fields if field.path == "lines[].name"]
    assert [field.attempts for field in names[:2]] == [2, 3]


def test_who_waited_sees_a_list_that_was_decoded_again_in_the_order_of_the_program() -> None:
    """Layers with a window look at the last tokens of this order."""

    def before_total(runner: Engine) -> list[int]:
        path = [token.path for token in fakes(runner).fed if runner.encoder.decode([token.token]) == "t"][-1]
        text = runner.encoder.decode([token.token for token in path])
        return [text.rindex(part) for part in ("[", "]", '"sum"', '"t')]

    asked = program("""
  lines: [{ name: string(max=4), amount: integer(0..99), sum: integer(0..9) after amount }](3..4)
  total: integer(0..999) after lines
  other: integer(0..9)
""")
    plain, runner = engine(), engine()
    name = plain.run(asked, {}, sampling=WARM).value["lines"][-1]["name"]
    order = before_total(plain)
    assert order == sorted(order)

    class Line(BaseModel):
        name: Any
        amount: Any
        sum: Any

        @field_validator("name")
        @classmethod
        def judge(cls, value: Any) -> Any:
            assert value != name
            return value

    class Picky(BaseModel):
        lines: list[Line]
        total: Any
        other: Any

    result = runner.run(asked, {}, sampling=WARM, model=Picky, repair=3)
    assert result.answers[0].field("total").attempts == 2
    order = before_total(runner)
    assert order == sorted(order)


def test_a_value_that_its_type_leaves_no_choice_about_is_judged_again_all_the_same() -> None:
    asked = program("  a: integer(0..99)\n  b: integer(7..7)")
    with pytest.raises(Invalid) as caught:
        engine().run(asked, {}, sampling=WARM, model=refusing("b", a=1), repair=2)
    [problem] = caught.value.problems
    assert (problem.where, problem.text, problem.attempts) == ("b", "7", 3)


def test_a_penalty_holds_all_that_a_branch_has_written_against_a_value_that_is_written_again() -> None:
    """Its beginning, which an earlier request may have left, and what was written before the attempt."""
    asked = program("  a: string(max=6)\n  b: string(max=6)")
    penalised = Sampling(temperature=1.0, repetition_penalty=3.0)

    def texts(**options: Any) -> list[str]:
        asks: dict[str, Any] = {"model": refusing("b", a=1), "repair": 2, "keep_invalid": True}
        runner = engine(**options)
        return [
            runner.run(asked, {}, sampling=penalised, mode="sequential", seed=seed, **asks).text for seed in range(6)
        ]

    assert texts() == texts(prefix_cells=0)


@pytest.mark.parametrize("mode", Mode)
def test_attempts_give_back_the_memory_of_those_before_them(mode: Mode) -> None:
    """Nothing pleases the model, so there are as many attempts as are allowed: their number costs no memory."""
    for asked in (GROUP, LINES):
        names = list(engine().run(asked, {}, mode=mode).value)
        peaks = []
        for repair in (4, 40):
            with pytest.raises(Invalid) as caught:
                engine().run(asked, {}, mode=mode, sampling=WARM, model=refusing(names[-1]), repair=repair)
            assert caught.value.problems[0].attempts == repair + 1
            peaks.append(caught.value.result.usage.peak_cells)
        assert peaks[1] < 1.5 * peaks[0], "the memory of replaced branches is kept"


@pytest.mark.parametrize("mode", Mode)
def test_an_objection_to_a_whole_object_has_as_many_attempts_as_one_to_a_field(mode: Mode) -> None:
    """In sequential mode, its fields stand one behind another, and each attempt decodes all of them again."""

    class Never(BaseModel):
        a: Any
        b: Any
        c: Any
        d: Any

        @model_validator(mode="before")
        @classmethod
        def judge(cls, value: Any) -> Any:
            raise ValueError("no")

    result = engine().run(GROUP, {}, mode=mode, sampling=WARM, model=Never, repair=3, keep_invalid=True)
    assert max(field.attempts for field in result.fields) == 4
    assert [problem.attempts for problem in result.problems] == [4]
