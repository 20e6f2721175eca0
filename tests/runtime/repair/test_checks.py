"""What no token can be held to is checked on the finished value, which is decoded again until it passes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import pastalang
from pastalang import BadInputs, Engine, FieldAgain, Invalid, Sampling
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

WARM = Sampling(temperature=1.0)
# Half of these numbers are below 50 and have both properties, so they fit both alternatives.
ONE_OF: dict[str, Any] = {"enum": [*range(100)], "oneOf": [{"multipleOf": 2}, {"maximum": 49}]}


# No value passes, which only the check knows.
NEVER: dict[str, Any] = {"enum": ["a", "b"], "not": {"pattern": "[ab]"}}


def program(schema: Any, more: str = "") -> pastalang.Program:
    quoted = json.dumps(schema)
    return pastalang.compile(
        f'template t()\nuser """\nGo.\n"""\nassistant json {{\n  a: schema("""{quoted}""", max_tokens=40)\n{more}}}\n'
    )


def engine(seed: int = 5) -> Engine:
    return Engine(hashed_model(320, seed=seed), byte_tokenizer())


def is_right(value: int) -> bool:
    return (value % 2 == 0) != (value <= 49)


def test_a_value_that_fails_its_check_is_decoded_again_until_it_passes() -> None:
    made = program(ONE_OF, "  b: integer(0..99)\n")
    runner, repaired = engine(), 0
    for seed in range(30):
        result = runner.run(made, {}, seed=seed, sampling=WARM, repair=9)
        assert is_right(result.value["a"])
        again = [field.path for field in result.fields if field.attempts > 1]
        assert again in ([], ["a"]) and result.usage.attempts == result.fields[0].attempts - 1
        repaired += bool(again)
    assert repaired > 5


def test_without_a_number_of_repairs_there_are_three() -> None:
    made, runner = program(NEVER), engine()
    with pytest.raises(Invalid, match=r"the answer is not valid: a: .*should not be valid") as refused:
        runner.run(made, {}, sampling=WARM)
    [problem] = refused.value.problems
    assert (problem.attempts, refused.value.field, refused.value.code) == (4, "a", "invalid")
    with pytest.raises(Invalid) as refused:
        runner.run(made, {}, sampling=WARM, repair=0)
    assert refused.value.problems[0].attempts == 1


def test_an_answer_that_stays_wrong_can_be_kept_with_its_problem() -> None:
    result = engine().run(program(NEVER, "  when: date\n"), {}, sampling=WARM, keep_invalid=True)
    assert result.value["a"] in ("a", "b") and isinstance(result.value["when"], str)
    assert [problem.where for problem in result.problems] == ["a"]
    assert result.fields[0].problem is not None and result.fields[1].problem is None


def test_a_model_judges_only_what_has_passed_the_check() -> None:
    class Even(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def judge(cls, a: int) -> int:
            assert is_right(a)
            if a % 4:
                raise ValueError("no multiple of four")
            return a

    runner = engine()
    for seed in range(10):
        result = runner.run(program(ONE_OF), {}, seed=seed, sampling=WARM, repair=30, model=Even)
        assert result.value.a % 4 == 0 and is_right(result.value.a)


def test_the_caller_hears_why_a_value_is_decoded_again() -> None:
    events = list(engine().stream(program(NEVER), {}, sampling=WARM, repair=1))
    [again] = [event for event in events if isinstance(event, FieldAgain)]
    assert again.field == "a" and "should not be valid" in again.reason


def test_running_text_holds_no_schema_that_has_to_be_checked() -> None:
    text = 'template t()\nassistant """\nIt is {a: schema("{\\"not\\": {\\"multipleOf\\": 2}}")}.\n"""\n'
    program, findings = pastalang.compiler.check_source(text, name="t")
    assert program is None
    assert "which needs a JSON answer" in findings[0].headline


def test_nothing_is_checked_where_every_token_is_held_to_the_schema() -> None:
    with pytest.raises(BadInputs, match="without `model` nothing is checked"):
        engine().run(program({"oneOf": [{"type": "integer"}, {"type": "null"}]}), {}, keep_invalid=True)
