"""What becomes of values that their limits have cut, and that a call says so once."""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import Any

import pytest
from pydantic import BaseModel

import pastalang
from pastalang import Engine, InputError, ProgramError, Truncated, TruncationWarning
from pastalang.compiler import check_source
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import uniform_model

ENGINE = Engine(uniform_model(320), byte_tokenizer())
TITLE = {"title": "A red bicycle"}


def program(fields: str) -> pastalang.Program:
    return pastalang.compile(f'template t(title: text)\nuser """{{title}}"""\nassistant json {{\n{fields}\n}}\n')


CUT = program("  name: string(max=4) | null\n  kind: string(max=5)\n  size: integer(1..9)")


def test_a_cut_value_is_kept_with_one_warning_for_a_call() -> None:
    with pytest.warns(TruncationWarning, match=r"at their limits: name \(4 tokens\), kind \(5 tokens\); raise") as said:
        result = ENGINE.run(CUT, TITLE)
    assert len(said) == 1 and said[0].filename == __file__
    assert [str(one) for one in result.truncations] == ["name (4 tokens)", "kind (5 tokens)"]
    assert isinstance(result.value["name"], str) and result.truncated


def test_a_batch_warns_once_and_counts() -> None:
    with pytest.warns(TruncationWarning, match=r"name \(4 tokens\) 3 times, kind") as said:
        ENGINE.batch(CUT, [TITLE] * 3)
    assert len(said) == 1 and said[0].filename == __file__


def test_a_task_and_a_stream_warn_too() -> None:
    with pytest.warns(TruncationWarning):
        asyncio.run(ENGINE.arun(CUT, TITLE))
    with pytest.warns(TruncationWarning):
        list(ENGINE.stream(CUT, TITLE))


def test_what_is_asked_for_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TruncationWarning)
        ENGINE.run(CUT, TITLE, on_truncated="keep")
        Engine(uniform_model(320), byte_tokenizer(), on_truncated="keep").run(CUT, TITLE)


def test_a_cut_value_becomes_an_error_with_the_result() -> None:
    with pytest.raises(Truncated, match=r"cut at its limit: name \(4 tokens\), kind \(5 tokens\)") as raised:
        ENGINE.run(CUT, TITLE, on_truncated="raise")
    assert raised.value.code == "truncated" and raised.value.field == "name"
    assert raised.value.result.value["size"] == 1


def test_a_cut_value_becomes_null() -> None:
    nullable = program("  name: string(max=4) | null\n  again: string(max=6) | null after name\n  size: integer(1..9)")
    result = ENGINE.run(nullable, TITLE, on_truncated="null")
    assert result.value == json.loads(result.text) == {"name": None, "again": None, "size": 1}
    field = result.answers[0].field("name")
    assert field.truncated and field.text == result.text[slice(*field.span)] == "null"
    assert field.problem is not None and field.problem.startswith('cut at its limit of 4 tokens, as "')


def test_what_cannot_be_null_is_an_error_instead() -> None:
    with pytest.raises(Truncated, match=r"cut at its limit: kind \(5 tokens\)$"):
        ENGINE.run(CUT, TITLE, on_truncated="null")


def test_the_field_goes_before_the_call_and_the_call_before_the_engine() -> None:
    mixed = program('  name: string(max=4) | null with (on_truncated="null")\n  kind: string(max=5)')
    result = ENGINE.run(mixed, TITLE, on_truncated="keep")
    assert result.value["name"] is None and isinstance(result.value["kind"], str)
    strict = Engine(uniform_model(320), byte_tokenizer(), on_truncated="raise")
    assert strict.run(mixed, TITLE, on_truncated="keep").value == result.value
    with pytest.raises(Truncated, match="kind"):
        strict.run(mixed, TITLE)


def test_one_request_of_a_batch_may_fail() -> None:
    results = ENGINE.batch(CUT, [TITLE, TITLE], on_truncated="raise")
    assert [type(one) for one in results] == [Truncated, Truncated]


def test_a_value_inside_a_list_is_named_with_its_item() -> None:
    lines = program("  lines: [{ name: string(max=3), size: integer(1..9) }](2..2)")
    with pytest.raises(Truncated) as raised:
        ENGINE.run(lines, TITLE, on_truncated="raise")
    assert [one.where for one in raised.value.truncations] == ["lines[0].name", "lines[1].name"]
    assert {one.path for one in raised.value.truncations} == {"lines[].name"}


@pytest.mark.parametrize(("limits", "cut"), [("(min=16)", ["lines"]), ("", []), ("(max=2)", []), ("(16..20)", [])])
def test_a_list_is_cut_by_a_maximum_that_nobody_set(limits: str, cut: list[str]) -> None:
    """The model stops as soon as it may."""
    lines = program(f"  lines: [{{ size: integer(1..9) }}]{limits}")
    result = ENGINE.run(lines, TITLE, on_truncated="keep")
    assert [one.path for one in result.truncations] == cut
    for one in result.truncations:
        assert (one.limit, one.unit) == (len(result.value["lines"]), "item")


def test_a_null_is_validated_as_such() -> None:
    class Model(BaseModel):
        name: str | None
        size: int

    nullable = program("  name: string(max=4) | null\n  size: integer(1..9)")
    assert ENGINE.run(nullable, TITLE, model=Model, on_truncated="null").value == Model(name=None, size=1)


def test_running_text_is_said_to_be_cut_too() -> None:
    text = pastalang.compile('template t()\nassistant text """Go: {where: string(max=3)} End."""')
    with pytest.raises(Truncated, match=r"where \(3 tokens\)"):
        ENGINE.run(text, {}, on_truncated="raise")


def test_a_word_that_is_not_one_of_the_three_is_refused() -> None:
    wrong: Any = "nul"
    with pytest.raises(InputError, match="`on_truncated` must be `keep`, `raise` or `null`, not 'nul'"):
        ENGINE.run(CUT, TITLE, on_truncated=wrong)
    with pytest.raises(InputError, match="`on_truncated` must be"):
        Engine(uniform_model(320), byte_tokenizer(), on_truncated=wrong)
    with pytest.raises(ProgramError, match='`on_truncated` must be one of "keep", "raise", "null"'):
        program('  name: string(max=4) with (on_truncated="nul")')


def test_null_where_the_type_has_none_is_refused_by_the_checker() -> None:
    fields = 'a: string with (on_truncated="null"), b: { c: string } with (on_truncated="null")'
    source = f"template t()\nassistant json {{ {fields} }}"
    compiled, findings = check_source(source, name="t")
    assert compiled is None
    assert [one.headline for one in findings] == [
        'a string cannot become null, so `on_truncated="null"` means nothing here'
    ]
