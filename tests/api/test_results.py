"""What a result says besides its value: fields, usage, trace, and how it is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pastalang
from tests.api.engines import WARM, hashing, json_program

ORDER = json_program(
    '  "unit price": integer(0..9)\n  order: { total: integer(0..9), "per cent": integer(0..9) }\n'
    "  lines: [{ name: string(max=4), total: integer(0..9) }](2..2)"
)
WARMLY: dict[str, Any] = {"sampling": WARM, "on_truncated": "keep"}


@pytest.fixture(scope="module")
def result() -> pastalang.Result:
    return hashing(1).run(ORDER, **WARMLY)


def test_a_field_has_its_text_in_the_text_of_the_answer(result: pastalang.Result) -> None:
    for field in result.fields:
        assert result.text[slice(*field.span)] == field.text and isinstance(field, pastalang.FieldResult)
        assert json.loads(field.text) == field.value and field.attempts == 1 and field.problem is None


def test_a_run_takes_as_many_passes_as_its_plan_asks_for(result: pastalang.Result) -> None:
    usage = result.usage
    assert usage.forward_passes == usage.critical_path == result.trace.passes
    assert usage.theoretical_speedup > 1 and usage.peak_cells > 0 and usage.seconds > 0
    assert usage.output_tokens == len(result.trace.drawn) > usage.forward_passes
    assert sum(one.tokens for one in result.trace.fed) == usage.input_tokens + usage.forced_tokens


def test_one_value_after_another_takes_as_many_passes_as_tokens() -> None:
    usage = hashing(1).run(ORDER, mode="sequential", **WARMLY).usage
    assert usage.forward_passes == usage.output_tokens


def test_many_values_take_as_many_passes_as_the_longest_one() -> None:
    result = hashing().run(json_program("\n".join(f"  f{number}: string(max=9)" for number in range(40))), **WARMLY)
    assert result.usage.forward_passes <= 9 and len(result.value) == 40


def test_a_result_is_shown_on_two_lines_and_as_a_page(result: pastalang.Result) -> None:
    first, second = repr(result).splitlines()
    assert first.startswith('<Result {"unit price"') and "7 fields" in second and "passes" in second
    assert "<" in result._repr_html_() and result.field("order.total").where in repr(result.field("order.total"))


def test_an_answer_has_what_the_result_has(result: pastalang.Result) -> None:
    [answer] = result.answers
    assert isinstance(answer, pastalang.Answer) and isinstance(result.usage, pastalang.Usage)
    assert (answer.value, answer.text, answer.fields) == (result.value, result.text, result.fields)
    assert result.thinking == (None,) and not result.is_stacked and result.problems == ()
