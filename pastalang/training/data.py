"""Read training data: JSON lines with the inputs of a template and the right answer as `value`.

Every problem is reported with its file and line.

{"title": "Sony Bravia 55", "value": {"brand": "Sony", "size": 55}}
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pastalang.errors import InputError
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Program
from pastalang.runtime.inputs import bind_inputs
from pastalang.source import Source
from pastalang.training.answer import Answer, answer_of
from pastalang.training.errors import BadData, BadRow, BadRows, UnreadableData
from pastalang.training.lessons import Lesson, planner
from pastalang.values.json import JsonValue, NotJson, parse_json

VALUE = "value"
CATEGORY = "category"
ACCEPTED = "accepted"
THOUGHT = "thought"


@dataclass(frozen=True, slots=True)
class Row:
    """A checked line of a file: `answer` fits the plan. `category` groups rows for scores.

    `accepted` are further right values of its fields, as `metrics.accepted_of` reads them. `thought` is what the model
    thinks before its answer, in a template that lets it think.
    """

    origin: str
    inputs: Mapping[str, Any]
    value: JsonValue
    answer: Answer
    category: str
    accepted: JsonValue = None
    thought: JsonValue = None

    def lesson(self, plan_of: Callable[[Mode], Plan]) -> Lesson:
        return Lesson(plan_of, self.inputs, self.value, self.origin, self.category, self.thought)


@dataclass(frozen=True, slots=True)
class Reading:
    """The rows of a file that can be used, and those that cannot."""

    rows: tuple[Row, ...]
    problems: tuple[BadRow, ...] = ()

    @property
    def count(self) -> int:
        return len(self.rows) + len(self.problems)


def read_lessons(path: Path | Source, program: Program, *, template: str | None = None) -> list[Lesson]:
    """Raises `BadData` for the file, `BadRows` for all lines that do not fit. Empty lines are skipped."""
    plan_of = planner(program, template)
    return [row.lesson(plan_of) for row in read_checked(path, plan_of(Mode.STRICT))]


def read_checked(path: Path | Source, plan: Plan) -> list[Row]:
    """The rows of a file, checked against one plan. Raises `BadData` or `BadRows`."""
    reading = read_against(path, plan)
    if reading.problems:
        raise BadRows(reading.problems, rows=reading.count)
    return list(reading.rows)


def read_against(path: Path | Source, plan: Plan) -> Reading:
    """The rows of a file, each checked against the plan. Raises `BadData` for the whole file."""
    rows, problems = list[Row](), list[BadRow]()
    for origin, row in scan_rows(path):
        try:
            rows.append(_checked(origin, row, plan))
        except BadRow as problem:
            problems.append(problem)
    return Reading(tuple(rows), tuple(problems))


def _checked(origin: str, row: dict[str, JsonValue] | BadRow, plan: Plan) -> Row:
    if isinstance(row, BadRow):
        raise row
    if VALUE not in row:
        raise BadRow(f"the key `{VALUE}` is missing: it holds the right answer", origin=origin)
    extra = _extra(plan)
    inputs = {key: _plain(item) for key, item in row.items() if key not in (VALUE, *extra)}
    thought = row.get(THOUGHT) if THOUGHT in extra else None
    try:
        answer = answer_of(plan, row[VALUE], bind_inputs(plan, inputs), thought=thought)
    except BadRow as problem:
        raise problem.at(origin) from None
    except InputError as problem:
        raise BadRow(str(problem), origin=origin) from problem
    category = str(row.get(CATEGORY, "")) if CATEGORY in extra else ""
    return Row(origin, inputs, row[VALUE], answer, category, row.get(ACCEPTED) if ACCEPTED in extra else None, thought)


def read_rows(path: Path | Source) -> list[tuple[str, dict[str, JsonValue]]]:
    """Every line's object, with its origin (`file:line`). Raises `BadRow` for the first that is not one."""
    rows = []
    for origin, row in scan_rows(path):
        if isinstance(row, BadRow):
            raise row
        rows.append((origin, row))
    return rows


def scan_rows(path: Path | Source) -> list[tuple[str, dict[str, JsonValue] | BadRow]]:
    """Every line's object, or what is wrong with it, with its origin (`file:line`). An empty file is refused."""
    name = name_of(path)
    lines = _text_of(path).split("\n")
    numbered = [(f"{name}:{number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise BadData(f"{name} holds no rows")
    return [(origin, _object(line, origin)) for origin, line in numbered]


def _object(line: str, origin: str) -> dict[str, JsonValue] | BadRow:
    try:
        row = parse_json(line)
    except NotJson as problem:
        return BadRow(f"is not JSON: {str(problem).removeprefix('not JSON: ')}", origin=origin)
    return row if isinstance(row, dict) else BadRow("has to be a JSON object", origin=origin)


def name_of(path: Path | Source) -> str:
    return path.name if isinstance(path, Source) else str(path)


def _text_of(path: Path | Source) -> str:
    if isinstance(path, Source):
        return path.text
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as problem:
        raise UnreadableData(f"there is no file {path}") from problem
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableData(f"{path} could not be read: {reason}") from problem
    except UnicodeDecodeError as problem:
        raise UnreadableData(f"{path} could not be read: it is not UTF-8 text") from problem


def fingerprint_of(path: Path | Source) -> str:
    """A short name of a file's contents."""
    data = path.text.encode() if isinstance(path, Source) else path.read_bytes()
    return hashlib.sha256(data).hexdigest()[:16]


def _extra(plan: Plan) -> set[str]:
    """What a row may hold besides inputs and value, unless the template has an input of that name."""
    return {CATEGORY, ACCEPTED, THOUGHT} - {input.name for input in plan.inputs}


def _plain(value: JsonValue) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
