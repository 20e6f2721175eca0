"""Types of holes: what the model writes and what comes out. A type is kept whatever the model wants to write."""

from __future__ import annotations

import json
import re
import uuid
from datetime import date, datetime, time
from typing import Any

import pytest

import pastalang
from tests.api.engines import WARM, hashing, json_program, text_program, uniform, writing

WRITTEN = [
    ("string(max=12)", '"Sharp"', "Sharp"),
    ("string(max=20)", '"a \\"quoted\\" é"', 'a "quoted" é'),
    ("integer", "-42", -42),
    ("integer(1..5)", "4", 4),
    ("number", "2.50", 2.5),
    ("number(min=0, max_tokens=8)", "12.25", 12.25),
    ("boolean", "false", False),
    ("date", '"2024-02-29"', date(2024, 2, 29)),
    ("datetime", '"2024-02-29T12:30:00Z"', datetime.fromisoformat("2024-02-29T12:30:00+00:00")),
    ("time", '"12:30:00"', time(12, 30)),
    ("uuid", '"123e4567-e89b-12d3-a456-426614174000"', uuid.UUID("123e4567-e89b-12d3-a456-426614174000")),
    ('"tv" | "phone"', '"phone"', "phone"),
    ("1 | 2.5 | true | null", "2.5", 2.5),
    ("string(max=9) | null", "null", None),
    ("integer(0..9) | boolean", "true", True),
    ("/[A-Z]{2}-[0-9]{4}/", '"AB-1234"', "AB-1234"),
    ('string(max=24, format="email")', '"a@b.org"', "a@b.org"),
    ("[integer(0..9)](max=5)", "[1, 2, 3]", [1, 2, 3]),
    ("[boolean, integer(0..9)]", "[true, 7]", (True, 7)),
    ("{string: integer(0..9)}(max=2)", '{"b": 1, "c": 2}', {"b": 1, "c": 2}),
    ("any", '{"b": [1, null]}', {"b": [1, None]}),
]


@pytest.mark.parametrize(("type", "written", "value"), WRITTEN, ids=[type for type, _, _ in WRITTEN])
def test_a_value_that_fits_its_type_is_read_as_python_has_it(type: str, written: str, value: Any) -> None:
    result = writing({'"a": ': written}).run(json_program(f"  a: {type}"))
    assert result.value == {"a": value}
    assert isinstance(result.value["a"], bool) == isinstance(value, bool)


UNWANTED = [
    ("integer(1..5)", "9", lambda value: value in range(1, 6)),
    ("number(above=0, below=1)", "7", lambda value: 0 < value < 1),
    ("integer(multiple_of=7, min=0, max=100)", "50", lambda value: value % 7 == 0 and 0 <= value <= 100),
    ('"tv" | "phone"', '"car"', lambda value: value in ("tv", "phone")),
    ("/[A-Z]{2}-[0-9]{4}/", '"ab-12"', lambda value: re.fullmatch("[A-Z]{2}-[0-9]{4}", value)),
    ("string(min_chars=3, max_chars=5)", '"abcdefgh"', lambda value: 3 <= len(value) <= 5),
    ("date", '"2023-02-29"', lambda value: isinstance(value, date)),
    ("[integer(0..9)](2..3)", "[]", lambda value: 2 <= len(value) <= 3),
    ('["a" | "b" | "c"](3..3, unique=true)', '["a", "a"]', lambda value: sorted(value) == ["a", "b", "c"]),
    ("{string: boolean}(1..2, max_tokens=24)", "{}", lambda value: 1 <= len(value) <= 2),
    ("boolean", "maybe", lambda value: isinstance(value, bool)),
]


@pytest.mark.parametrize(("type", "written", "fits"), UNWANTED, ids=[type for type, _, _ in UNWANTED])
def test_a_type_is_kept_whatever_the_model_wants_to_write(type: str, written: str, fits: Any) -> None:
    result = writing({'"a": ': written}).run(json_program(f"  a: {type}"), on_truncated="keep")
    assert fits(result.value["a"]) and json.loads(result.text).keys() == {"a"}


@pytest.mark.parametrize("seed", range(6))
def test_random_answers_fit_a_type_of_every_kind(seed: int) -> None:
    program = json_program(
        "  name: string(max=6) | null\n  size: { width: number(min=0), unit: 'cm' | 'in' } | null\n"
        "  lines: [{ what: string(max=4), count: integer(1..9), total: number(max_tokens=6) after count }](max=3)\n"
        "  pair: [boolean, date]\n  tags: ['x' | 'y'](max=2)\n  other: any(max=12)".replace("'", '"')
    )
    value = json.loads(hashing(seed).run(program, sampling=WARM, seed=seed, on_truncated="keep").text)
    pastalang.model_of(program).model_validate(value)
    assert list(value) == ["name", "size", "lines", "pair", "tags", "other"]
    assert len(value["lines"]) <= 3 and all(1 <= line["count"] <= 9 for line in value["lines"])


def test_a_limit_counts_the_tokens_of_a_value() -> None:
    result = writing({'"a": ': '"abcdefghij"'}).run(json_program("  a: string(max=5)"), on_truncated="keep")
    [field] = result.fields
    assert (result.value["a"], len(field.tokens), field.truncated) == ("abc", 5, True)


def test_numbers_keep_the_digits_that_were_written() -> None:
    result = writing({'"a": ': "2.50"}).run(json_program("  a: number"))
    assert result.value["a"] == 2.5 and str(result.exact["a"]) == "2.50" and '"a": 2.50' in result.text


def test_a_named_type_may_hold_itself() -> None:
    program = json_program("  a: Tree", before="type Tree = { leaf: boolean, left: Tree | null }")
    written = '{"leaf": false, "left": {"leaf": true, "left": null}}'
    assert writing({'"a": ': written}).run(program).value["a"] == {"leaf": False, "left": {"leaf": True, "left": None}}


def test_the_model_chooses_among_objects() -> None:
    program = json_program(
        '  call: { do: "sum", of: [integer(0..9)](max=2) } | { do: "say", text: string(max=8) } | null'
    )
    result = writing({'"call": ': '{"do": "say"', '"text": ': '"hi"'}).run(program)
    assert result.value == {"call": {"do": "say", "text": "hi"}}
    assert result.field("call.text").value == "hi"
    assert writing({'"call": ': "null"}).run(program).value == {"call": None}


def test_an_optional_object_and_a_list_of_objects_have_fields_with_names() -> None:
    program = json_program(
        "  lines: [{ what: string(max=6), count: integer(1..9) }](2..4)\n  size: { w: integer(0..9) } | null"
    )
    result = hashing(3).run(program, sampling=WARM, on_truncated="keep")
    items = [f"lines[{number}].{key}" for number in range(len(result.value["lines"])) for key in ("what", "count")]
    assert [one.where for one in result.fields if one.path.startswith("lines[")] == items
    assert result.field("lines[1].count").value == result.value["lines"][1]["count"]


def test_a_literal_is_known_text_and_no_token_is_drawn_for_it() -> None:
    result = uniform().run(json_program('  kind: "invoice"\n  paid: boolean'))
    assert result.value["kind"] == "invoice" and [field.path for field in result.fields] == ["paid"]


def test_an_answer_may_be_one_value() -> None:
    program = pastalang.compile('template t()\nuser """Go."""\nassistant json "yes" | "no"\n')
    result = writing({"Assistant:": '\n"no"'}).run(program)
    assert result.value in ("yes", "no") and result.fields[0].where == "answer"


def test_a_hole_of_running_text_may_hold_any_type() -> None:
    program = text_program("It weighs {weight: integer(1..99)} kg and {colour: 'red' | 'blue'}.".replace("'", '"'))
    result = writing({"weighs ": "42", "and ": "blue"}).run(program)
    assert result.text == "It weighs 42 kg and blue." and result.value == {"weight": 42, "colour": "blue"}


@pytest.mark.parametrize("engine", [hashing, uniform], ids=["hashed", "uniform"])
def test_the_text_of_a_json_answer_is_its_value(engine: Any) -> None:
    result = engine().run(
        json_program("  a: string(max=6)\n  b: [integer(0..9)](max=2)\n  c: boolean"), on_truncated="keep"
    )
    assert json.loads(result.text) == result.value
    for field in result.fields:
        start, end = field.span
        assert result.text[start:end] == field.text
