"""The names of fields, as people write the places of values in Python."""

from __future__ import annotations

import json
import re

import pytest

import pastalang
from pastalang import Done, Engine, FieldDone
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model
from pastalang.values.paths import place_of

PROGRAM = pastalang.compile('''
template t(each doc: text)
user """
{doc}
"""
assistant json {
  lines: [{ item: boolean, parts: [{ n: integer(0..9) }](2..2) }](2..2)
  call: { tool: "a", city: "x" | "y" } | { tool: "b", day: integer(1..7) }
  "first (key)[]": boolean
}
''')


def test_a_field_is_found_under_the_place_of_its_value() -> None:
    result = Engine(hashed_model(320, seed=2), byte_tokenizer()).run(PROGRAM, {"doc": ["one", "two"]})
    for answer, value in zip(result.answers, result.value, strict=True):
        for line in range(2):
            assert answer.field(f"lines[{line}].item").value == value["lines"][line]["item"]
            for part in range(2):
                assert answer.field(f"lines[{line}].parts[{part}].n").value == value["lines"][line]["parts"][part]["n"]
        inside = "city" if value["call"]["tool"] == "a" else "day"
        assert answer.field(f"call.{inside}").value == value["call"][inside]
        assert answer.field('"first (key)[]"').value == value["first (key)[]"]
        assert answer.field("lines[].item", 1).value == value["lines"][1]["item"]
        with pytest.raises(KeyError, match=r"did you mean `lines\[1\].item`"):
            answer.field("lines[1].itme")


def test_results_events_and_traces_name_the_places_of_values_in_the_result() -> None:
    *events, done = Engine(hashed_model(320, seed=2), byte_tokenizer()).stream(PROGRAM, {"doc": ["one", "two"]})
    assert isinstance(done, Done)
    named = {field.where: field for field in done.result.fields}
    assert len(named) == len(done.result.fields)
    for where, field in named.items():
        assert done.result.field(where) == field
        value = done.result.value
        for number, key, word in re.findall(r'\[(\d+)\]|"([^"]*)"|(\w+)', where):
            value = value[int(number) if number else key or word]
        assert value == field.value
    assert {event.where for event in events if isinstance(event, FieldDone)} == set(named)
    trace = done.result.trace
    lanes = [lane.where for lane in trace.lanes]
    assert lanes[0] == "main" and len(set(lanes)) == len(lanes) and set(lanes) & set(named)
    written = map(json.loads, trace.json_lines().splitlines())
    assert [line["where"] for line in written if line["kind"] == "lane"] == lanes


@pytest.mark.parametrize(
    ("pattern", "items", "where"),
    [
        ("", (), "main"),
        ("answer", (), "answer"),
        ("answer", (1,), "[1]"),
        ("[].s", (1,), "[1].s"),
        ("[].s", (0, 1), "[0][1].s"),
        ("(object 1).a", (), "a"),
        ('call("b(c).d").day', (), "call.day"),
        ("lines#2[].total", (3,), "lines[3].total"),
        ("lines[].total", (), "lines[].total"),
        ('lines[]."unit price"', (2,), 'lines[2]["unit price"]'),
        ('"a\\"b"', (), '"a\\"b"'),
    ],
)
def test_the_name_that_a_plan_has_for_a_field_becomes_its_place(
    pattern: str, items: tuple[int, ...], where: str
) -> None:
    assert place_of(pattern, items) == where


def test_an_error_names_the_item_that_it_is_about() -> None:
    def score(fed: FedToken) -> list[float]:
        is_second = bytes(seen.token for seen in fed.sees if seen.token < 256).count(b'"n"') == 2
        return [float("nan") if is_second else 0.0] * 320

    program = pastalang.compile("template t()\nassistant json { lines: [{ n: integer(0..9) }](2..2) }")
    with pytest.raises(pastalang.NotFiniteLogits) as caught:
        Engine(FakeModel(score, vocabulary=320), byte_tokenizer()).run(program)
    assert caught.value.field == "lines[1].n"
