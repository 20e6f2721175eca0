"""Shared by the tests of training: a byte tokenizer, a small program, and rows of it."""

from __future__ import annotations

import json
from typing import Any

import pastalang
from pastalang import Mode
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.training.recording import Lesson, Recorder, TrainingRow, planner
from pastalang.values.json import parse_json

TOKENIZER = byte_tokenizer()
PRODUCT = '''
template product(title: text)
user """{title}"""
assistant json {
  brand: string(max=12) | null
  kind: "tv" | "phone"
  quote: verbatim(title, max=20) | null
}
'''


def lesson(source: str, inputs: dict[str, Any], value: Any, *, origin: str = "rows.jsonl:1") -> Lesson:
    return Lesson(planner(pastalang.compile(source)), inputs, parse_json(json.dumps(value)), origin)


def row_of(source: str, inputs: dict[str, Any], value: Any, mode: Mode = Mode.STRICT) -> TrainingRow:
    return Recorder(TOKENIZER).row(lesson(source, inputs, value), mode)


def product(title: str, *, mode: Mode = Mode.STRICT, **value: Any) -> TrainingRow:
    return row_of(PRODUCT, {"title": title}, {"brand": None, "kind": "tv", "quote": None} | value, mode)


def taught_text(row: TrainingRow, field: str) -> str:
    """The tokens that carry loss, of one field."""
    return "".join(chr(taught.token) for taught in row.taught if taught.field == field)
