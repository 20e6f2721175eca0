"""Read training data: JSON lines with the inputs of a template and the right answer as `value`.

Every problem is reported with its file and line.

{"title": "Sony Bravia 55", "value": {"brand": "Sony", "size": 55}}
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pastalang.errors import InputError
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Input, Program
from pastalang.runtime.inputs import bind_inputs
from pastalang.training.answer import Answer, answer_of
from pastalang.training.errors import BadData, BadRow, UnreadableData
from pastalang.training.lessons import Lesson, planner
from pastalang.values.json import JsonValue, NotJson, parse_json

VALUE = "value"
CATEGORY = "category"
ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Row:
    """A checked line of a file: `answer` fits the plan. `category` groups rows for scores.

    `accepted` are further right values of its fields, as `metrics.accepted_of` reads them.
    """

    origin: str
    inputs: Mapping[str, Any]
    value: JsonValue
    answer: Answer
    category: str
    accepted: JsonValue = None


def read_lessons(path: Path, program: Program, *, template: str | None = None) -> list[Lesson]:
    """Raises `BadData` for the file, `BadRow` for the first line that does not fit. Empty lines are skipped."""
    plan_of = planner(program, template)
    return [
        Lesson(plan_of, row.inputs, row.value, row.origin, row.category)
        for row in read_checked(path, plan_of(Mode.STRICT))
    ]


def read_checked(path: Path, plan: Plan) -> list[Row]:
    """The rows of a file, checked against one plan. Raises `BadData` or `BadRow`."""
    rows = []
    for origin, row in read_rows(path):
        if VALUE not in row:
            raise BadRow(f"the key `{VALUE}` is missing: it holds the right answer", origin=origin)
        inputs = {key: _plain(item) for key, item in row.items() if key not in (VALUE, *_extra(plan.inputs))}
        category = str(row.get(CATEGORY, ""))
        try:
            answer = answer_of(plan, row[VALUE], bind_inputs(plan, inputs))
        except BadRow as problem:
            raise problem.at(origin) from None
        except InputError as problem:
            raise BadRow(str(problem), origin=origin) from problem
        accepted = row.get(ACCEPTED) if ACCEPTED in _extra(plan.inputs) else None
        rows.append(Row(origin, inputs, row[VALUE], answer, category, accepted))
    return rows


def read_rows(path: Path) -> list[tuple[str, dict[str, JsonValue]]]:
    """Every line's object, with its origin (`file:line`). An empty file is refused."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError as problem:
        raise UnreadableData(f"there is no file {path}") from problem
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableData(f"{path} could not be read: {reason}") from problem
    except UnicodeDecodeError as problem:
        raise UnreadableData(f"{path} could not be read: it is not UTF-8 text") from problem
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        origin = f"{path}:{number}"
        try:
            row = parse_json(line)
        except NotJson as problem:
            raise BadRow(f"is not JSON: {str(problem).removeprefix('not JSON: ')}", origin=origin) from problem
        if not isinstance(row, dict):
            raise BadRow("has to be a JSON object", origin=origin)
        rows.append((origin, row))
    if not rows:
        raise BadData(f"{path} holds no rows")
    return rows


def fingerprint_of(path: Path) -> str:
    """A short name of a file's contents."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _extra(inputs: Iterable[Input]) -> set[str]:
    """What a row may hold for its scores, unless the template has an input of that name."""
    return {CATEGORY, ACCEPTED} - {input.name for input in inputs}


def _plain(value: JsonValue) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
