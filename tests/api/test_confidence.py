"""How sure a value is, what its type ruled out, and how likely each option was."""

from __future__ import annotations

import math
from datetime import date
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

import pastalang
from tests.api.engines import WARM, hashing, json_program, uniform, writing


def test_the_confidence_of_one_of_n_equal_options_is_one_nth() -> None:
    result = uniform().run(json_program('  a: "x" | "y" | "z" | "w"\n  b: boolean'))
    assert result.field("a").confidence == pytest.approx(1 / 4) and result.field("b").confidence == pytest.approx(1 / 2)


def test_the_confidence_of_a_text_does_not_depend_on_its_length_and_that_of_a_number_is_of_the_whole() -> None:
    program = json_program("  a: string(max=6)\n  b: integer(100..999)\n  c: string(max=6) | null")
    for seed in range(4):
        text, number, either = hashing(seed).run(program, sampling=WARM, on_truncated="keep", seed=seed).fields
        for field in (text, number, either):
            assert len(field.log_probabilities) == len(field.tokens)
            assert field.log_probability == pytest.approx(sum(field.log_probabilities))
        assert number.confidence == pytest.approx(math.exp(number.log_probability))
        assert sum(map(bool, text.log_probabilities)) <= text.averaged <= len(text.tokens) and text.averaged > 1
        assert text.confidence == pytest.approx(math.exp(text.log_probability / text.averaged))
        assert (either.averaged == 1) is (either.value is None or len(either.tokens) == 1)


def test_a_small_confidence_is_shown_as_small() -> None:
    field = uniform().run(json_program("  a: integer(1000..9999)")).field("a")
    assert field.confidence < 0.001 and "(confidence below 0.01)" in repr(field)


def test_a_value_without_a_choice_is_certain() -> None:
    result = uniform().run(json_program("  a: integer(7..7)\n  b: boolean"))
    assert result.field("a").confidence == 1 and result.value["a"] == 7


def test_the_temperature_does_not_change_what_a_value_is_worth() -> None:
    """Confidence is the model's own probability under the type, not that of the draw."""
    program = json_program('  a: "x" | "y"')
    engine = hashing(3)
    found = {}
    for seed in range(40):
        result = engine.run(program, seed=seed, sampling=pastalang.Sampling(temperature=4.0))
        found[result.value["a"]] = result.field("a").confidence
    assert sum(found.values()) == pytest.approx(1)


def test_what_a_type_ruled_out_is_told_on_demand() -> None:
    program = json_program("  a: integer(1..5)")
    plain, told = (writing({'"a": ': '"x"'}).run(program, details=details) for details in (False, True))
    assert plain.field("a").masked_probability is None and plain.value == told.value
    masked = told.field("a").masked_probability
    assert masked is not None and masked[0] > 0.99


def test_the_likeliest_option_is_not_always_the_one_that_was_written() -> None:
    program = json_program('  a: "red" | "green" | "grey" | "black"')
    found = [hashing(5).run(program, details=True, seed=seed, sampling=WARM).field("a") for seed in range(12)]
    assert len({field.value for field in found}) > 1 and len({field.options for field in found}) == 1
    for field in found:
        assert dict(field.options or ())[field.text] == pytest.approx(field.confidence)


def test_details_change_no_answer() -> None:
    program = json_program('  a: "red" | "green"\n  b: string(max=5)\n  c: [boolean](max=2)')
    for seed in range(3):
        texts = {
            hashing(2).run(program, seed=seed, sampling=WARM, details=details, on_truncated="keep").text
            for details in (False, True)
        }
        assert len(texts) == 1


class Mark(BaseModel):
    mark: bool


class Diary(BaseModel):
    day: date
    note: str
    wet: Annotated[list[bool], Field(max_length=4)]
    marks: Annotated[list[Mark], Field(min_length=16)]


def test_an_answer_that_cannot_be_meant_is_logged_unless_its_details_are_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Equal items of a list that ended by itself are none."""
    said = {'"day": ': '"9452-01-01"', '"note": ': '"ha ha ha ha ha ha"', '"wet": ': "[true, true, true, true]"}
    engine = writing({**said, '"mark": ': "true"}, on_truncated="keep")
    doubts = ("day: is an impossible date", "note: repeats itself", "marks: repeats itself")
    found = engine.extract(Diary, "ha", details=True)
    assert found.doubtful == doubts and not caplog.records
    engine.extract(Diary, "ha")
    assert caplog.messages == [f"the answer is doubtful: {'; '.join(found.doubtful)}; `details=True` says more"]
