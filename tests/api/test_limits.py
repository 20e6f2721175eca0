"""Values that a limit cuts, runs that do not fit, and models that fail."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import warnings
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import BaseModel

import pastalang
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel
from tests.api.engines import VOCABULARY, hashing, json_program, mini, text_program, uniform, writing

CUT = json_program(
    "  name: string(max=4) | null\n  kind: string(max=5)\n  size: integer(1..9)", inputs='t: text = ""', says="{t}."
)


def test_a_cut_value_is_kept_with_one_warning_for_a_call() -> None:
    cut = r"at their limits: name \(4 tokens\), kind \(5 tokens\); raise their limits, or set"
    with pytest.warns(pastalang.TruncationWarning, match=cut) as said:
        result = uniform().run(CUT)
    assert len(said) == 1 and said[0].filename == __file__
    assert [str(one) for one in result.truncations] == ["name (4 tokens)", "kind (5 tokens)"] and result.truncated
    assert isinstance(result.truncations[0], pastalang.Truncation)


AGAIN = "they repeat themselves, so higher limits do not help; set `on_truncated`"
HIGHER = "raise their limits, or set `on_truncated`"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ('"abc", "abc", "abc", "abc", "abc", "abc", "abc", "abc"', AGAIN),
        ('"bc", "abd", "abc", "abd", "abc", "abd", "abc", "abd"', AGAIN),
        ('"abc", "abc", "abd", "abd", "abc", "abd", "abc", "abd"', HIGHER),
        ('"abc", "abc", "abc", "abc", "abc", "b", "c", "abc", "abc"', HIGHER),
    ],
)
def test_a_list_that_goes_round_is_not_helped_by_a_higher_limit(words: str, advice: str) -> None:
    """Its last item may be cut."""
    for limit in (50, 51, 52):
        with pytest.warns(pastalang.TruncationWarning, match=rf"words \({limit} tokens\); {advice}"):
            writing({'"words": ': f"[{words}]"}).run(json_program(f"  words: [string(max=6)](max_tokens={limit})"))
    with pytest.warns(pastalang.TruncationWarning, match=r"limits, except where they repeat themselves \(lines\), or"):
        uniform().run(json_program("  name: string(max=4)\n  lines: [{ size: integer(1..9) }](min=16)"))


def test_a_batch_warns_once_and_counts() -> None:
    with pytest.warns(pastalang.TruncationWarning, match=r"name \(4 tokens\) 3 times, kind") as said:
        uniform().batch(CUT, [{}] * 3)
    assert len(said) == 1 and said[0].filename == __file__


def test_a_document_in_windows_names_each_field_that_was_cut_once() -> None:
    class Note(BaseModel):
        words: Annotated[list[str], pastalang.Tokens(6)]

    found = uniform(on_truncated="keep").extract(Note, "One two three. " * 12, window=64, overlap=0, details=True)
    assert len(found.windows) > 1 and found.problem == f"cut at its limit: words (6 tokens) {len(found.windows)} times"


def test_a_task_and_a_stream_warn_too() -> None:
    for call in (lambda: asyncio.run(uniform().arun(CUT)), lambda: list(uniform().stream(CUT))):
        with pytest.warns(pastalang.TruncationWarning):
            call()


def test_what_is_asked_for_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pastalang.TruncationWarning)
        uniform().run(CUT, on_truncated="keep")
        uniform(on_truncated="keep").run(CUT)


def test_a_cut_value_becomes_an_error_with_the_result() -> None:
    with pytest.raises(pastalang.Truncated, match=r"cut at its limit: name \(4 tokens\), kind \(5 tokens\)") as raised:
        uniform().run(CUT, on_truncated="raise")
    assert (raised.value.code, raised.value.field) == ("truncated", "name")
    again = pickle.loads(pickle.dumps(raised.value))
    assert again.result.value["size"] == 1 and str(again) == str(raised.value)


def test_a_cut_value_becomes_null_where_its_type_has_one() -> None:
    fields = "  name: string(max=4) | null\n  again: string(max=6) | null after name\n  size: integer(1..9)"
    nullable = json_program(fields)
    result = uniform().run(nullable, on_truncated="null")
    assert result.value == json.loads(result.text) == {"name": None, "again": None, "size": 1}
    assert result.field("name").truncated and "cut at its limit of 4 tokens" in str(result.field("name").problem)
    with pytest.raises(pastalang.Truncated, match=r"kind \(5 tokens\)$"):
        uniform().run(CUT, on_truncated="null")


def test_the_field_goes_before_the_call_and_the_call_before_the_engine() -> None:
    mixed = json_program('  name: string(max=4) | null with (on_truncated="null")\n  kind: string(max=5)')
    result = uniform().run(mixed, on_truncated="keep")
    assert result.value["name"] is None and isinstance(result.value["kind"], str)
    strict = uniform(on_truncated="raise")
    assert strict.run(mixed, on_truncated="keep").value == result.value
    with pytest.raises(pastalang.Truncated, match="kind"):
        strict.run(mixed)


def test_a_model_says_it_with_an_annotation() -> None:
    class Word(BaseModel):
        word: Annotated[str | None, pastalang.Tokens(4, on_truncated="null")]

    assert uniform().extract(Word, "x").word is None


def test_a_null_is_validated_as_such() -> None:
    class Record(BaseModel):
        name: str | None
        size: int

    nullable = json_program("  name: string(max=4) | null\n  size: integer(1..9)")
    assert uniform().run(nullable, model=Record, on_truncated="null").value == Record(name=None, size=1)


def test_one_request_of_a_batch_may_fail() -> None:
    assert [type(one) for one in uniform().batch(CUT, [{}, {}], on_truncated="raise")] == [pastalang.Truncated] * 2


def test_a_value_inside_a_list_is_named_with_its_item() -> None:
    lines = json_program("  lines: [{ name: string(max=3), size: integer(1..9) }](2..2)")
    with pytest.raises(pastalang.Truncated) as raised:
        uniform().run(lines, on_truncated="raise")
    assert [one.where for one in raised.value.truncations] == ["lines[0].name", "lines[1].name"]


@pytest.mark.parametrize(("limits", "cut"), [("(min=16)", ["lines"]), ("", []), ("(max=2)", []), ("(16..20)", [])])
def test_a_list_is_cut_by_a_maximum_that_nobody_set(limits: str, cut: list[str]) -> None:
    """The model stops as soon as it may."""
    result = uniform().run(json_program(f"  lines: [{{ size: integer(1..9) }}]{limits}"), on_truncated="keep")
    assert [one.path for one in result.truncations] == cut
    assert all((one.limit, one.unit) == (len(result.value["lines"]), "item") for one in result.truncations)


def test_running_text_is_said_to_be_cut_too() -> None:
    with pytest.raises(pastalang.Truncated, match=r"where \(3 tokens\)"):
        uniform().run(text_program("Go: {where: string(max=3)} End."), on_truncated="raise")


def test_a_word_that_is_not_one_of_the_three_is_refused() -> None:
    wrong: Any = "nul"
    with pytest.raises(pastalang.InputError, match="`on_truncated` must be `keep`, `raise` or `null`, not 'nul'"):
        uniform().run(CUT, on_truncated=wrong)
    with pytest.raises(pastalang.InputError, match="`on_truncated` must be"):
        uniform(on_truncated=wrong)
    with pytest.raises(pastalang.ProgramError, match="`on_truncated` must be one of"):
        json_program('  name: string(max=4) with (on_truncated="nul")')
    with pytest.raises(pastalang.ProgramError, match="a string cannot become null") as raised:
        json_program('  name: string(max=4) with (on_truncated="null")')
    assert pickle.loads(pickle.dumps(raised.value)).diagnostics == raised.value.diagnostics


def test_what_does_not_fit_into_the_positions_is_told_with_what_to_shorten() -> None:
    with pytest.raises(pastalang.TooLong, match=re.escape("shorten `t` (200 tokens)")) as raised:
        hashing(max_position=150).run(CUT, t="x" * 200)
    assert raised.value.code == "too_long"


def test_a_memory_too_small_for_one_branch_is_told() -> None:
    with pytest.raises(pastalang.OutOfMemory, match="the prompt") as raised:
        hashing(cells=20).run(CUT, t="a long title that does not fit")
    assert raised.value.code == "out_of_memory"


def test_a_memory_for_one_branch_at_a_time_is_enough() -> None:
    program = text_program(
        "{fork point in points ~20}\n{point}: {note: string(max=12)}\n{end}", inputs="points: [text]"
    )
    points = [f"point {number}" for number in range(8)]
    plenty = hashing().run(program, points=points, on_truncated="keep")
    scarce = hashing(cells=150, prefix_cells=0).run(program, points=points, on_truncated="keep")
    assert scarce.text == plenty.text and scarce.usage.peak_cells <= 150 < plenty.usage.peak_cells


def test_logits_that_are_not_finite_name_the_field_and_the_line() -> None:
    model = FakeModel(lambda _: [float("nan")] * VOCABULARY, vocabulary=VOCABULARY)
    with pytest.raises(pastalang.NotFiniteLogits) as raised:
        pastalang.Engine(model, byte_tokenizer()).run(CUT)
    assert (raised.value.field, raised.value.line) == ("name", 5) and "name: string(max=4)" in str(raised.value)


def test_a_model_that_allows_nothing_is_a_dead_end() -> None:
    model = FakeModel(lambda _: [-float("inf")] * VOCABULARY, vocabulary=VOCABULARY)
    with pytest.raises((pastalang.DeadEnd, pastalang.NotFiniteLogits)):
        pastalang.Engine(model, byte_tokenizer()).run(CUT)


def test_an_engine_works_on_after_a_failure() -> None:
    engine = hashing(max_position=150)
    with pytest.raises(pastalang.TooLong):
        engine.run(CUT, t="x" * 200)
    assert engine.run(CUT, on_truncated="keep").text == hashing().run(CUT, on_truncated="keep").text


@pytest.mark.parametrize("limits", [{"chunk": 0}, {"requests": -1}, {"chunk": 1.5}, {"requests": True}])
def test_limits_that_let_nothing_through_are_refused(limits: Any) -> None:
    [(name, value)] = limits.items()
    with pytest.raises(pastalang.BadInputs, match=f"`{name}` must be a whole number of at least 1, not {value}"):
        pastalang.Limits(**limits)


@pytest.mark.parametrize("cells", [0, -1, True, 10.5, "10", None])
def test_a_memory_that_is_no_number_of_tokens_is_told_before_a_model_is_loaded(cells: Any) -> None:
    with pytest.raises(pastalang.BadInputs, match="`cells` must be a whole number of at least 1"):
        pastalang.Engine.load("nobody/nothing", cells=cells)


def test_a_tokenizer_larger_than_the_model_is_refused() -> None:
    model = FakeModel(lambda _: [0.0] * 100, vocabulary=100)
    with pytest.raises(pastalang.LoadError, match="do not belong together"):
        pastalang.Engine(model, byte_tokenizer())


def test_a_wide_type_fits_into_a_small_model() -> None:
    wide = pydantic.create_model("Wide", **{f"field_{number}": (str | None, ...) for number in range(200)})
    found = mini().extract(wide, "Norvika Coffee, 12 oz", on_truncated="keep", details=True)
    assert len(found.fields) == 200 and found.usage.forward_passes < 20


def test_what_is_too_wide_is_blamed_and_not_the_text() -> None:
    options = Literal[tuple(f"option number {number}" for number in range(3000))]  # type: ignore[valid-type]
    engine = hashing(max_position=8191)
    with pytest.raises(pastalang.TooLong, match=r"write fewer options for `answer` \(3,000\)$"):
        engine.extract(options, "short")
    program = json_program("\n".join(f"  f{number}: string(max=64)" for number in range(200)))
    with pytest.raises(pastalang.TooLong, match='`mode="sequential"`, which reserves nothing'):
        engine.run(program)
