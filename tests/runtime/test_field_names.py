"""The names of fields, as people write the places of values in Python."""

from __future__ import annotations

import pytest

import pastalang
from pastalang.runtime.engine import Engine
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

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
                found = answer.field(f"lines[{line}].parts[{part}].n")
                assert found.value == value["lines"][line]["parts"][part]["n"]
        inside = "city" if value["call"]["tool"] == "a" else "day"
        assert answer.field(f"call.{inside}").value == value["call"][inside]
        assert answer.field('"first (key)[]"').value == value["first (key)[]"]
        assert answer.field("lines[].item", 1).value == value["lines"][1]["item"]
        with pytest.raises(KeyError):
            answer.field("lines[2].item")
