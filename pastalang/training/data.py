"""Read training data: rows with the inputs of a template and the right answer as `value`, checked against the template.

Every problem is reported with its file and row.

{"title": "Sony Bravia 55", "value": {"brand": "Sony", "size": 55}}
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import InputError
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.program.program import Program
from pastalang.runtime.inputs import bind_inputs
from pastalang.training.answer import Answer, answer_of
from pastalang.training.errors import BadData, BadRow, leave_out_or_refuse
from pastalang.training.recording import Lesson, planner
from pastalang.training.row_files import Mapped, RowFile, Scanned, TableRow, readings, scan_rows
from pastalang.values.fit import fit
from pastalang.values.json import JsonValue, with_scalars

VALUE = "value"
CATEGORY = "category"
ACCEPTED = "accepted"
THOUGHT = "thought"
ID = "id"  # of a row, for people: nothing is read from it


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
class Asked:
    """The inputs of a row: as it has them, and with defaults."""

    origin: str
    inputs: Mapping[str, Any]
    bound: Mapping[str, Any]
    category: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The rows of a file that can be used, those that cannot, and the columns of a table that the program lacks."""

    rows: tuple[Row, ...]
    problems: tuple[BadRow, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.rows) + len(self.problems)

    @property
    def unused(self) -> str:
        return f"columns that are not used: {', '.join(self.left_out)}"


def read_lessons(path: RowFile, program: Program, *, template: str | None = None) -> list[Lesson]:
    """Raises `BadData` for the file, `BadRows` for all lines that do not fit. Empty lines are skipped."""
    plan_of = planner(program, template)
    return [row.lesson(plan_of) for row in read_checked(path, plan_of(Mode.STRICT))]


def read_checked(
    path: RowFile, plan: Plan, *, skip_bad: bool | None = None, note: Callable[[str], None] = lambda _: None
) -> list[Row]:
    """The rows of a file, checked against one plan. Bad ones are noted with `skip_bad`; else `BadRows` is raised."""
    reading = read_against(path, plan)
    leave_out_or_refuse(reading.problems, rows=reading.count, skip_bad=skip_bad, report=note)
    if reading.left_out:
        note(reading.unused)
    return list(reading.rows)


def read_against(path: RowFile, plan: Plan) -> Reading:
    """The rows of a file, each checked against the plan. Raises `BadData` for the whole file."""
    scanned, parts = _scanned(path, plan)
    rows, problems = list[Row](), list[BadRow]()
    for origin, row in scanned:
        try:
            rows.append(parts.row(origin, row))
        except BadRow as problem:
            problems.append(problem)
    return Reading(tuple(rows), tuple(problems), parts.left_out(row for _, row in scanned))


def read_asked(path: RowFile, plan: Plan) -> tuple[list[Asked | BadRow], tuple[str, ...]]:
    """The inputs of every row, or what is wrong with it; and the columns that are not used."""
    scanned, parts = _scanned(path, plan)
    return [parts.asked_or_bad(*one) for one in scanned], parts.left_out(row for _, row in scanned)


def read_answered(path: RowFile, plan: Plan) -> tuple[list[Row | Asked | BadRow], tuple[str, ...]]:
    """Every row, with or without an answer, or what is wrong with it; and the columns that are not used."""
    scanned, parts = _scanned(path, plan)
    return [parts.row_or_asked(*one) for one in scanned], parts.left_out(row for _, row in scanned)


def _scanned(path: RowFile, plan: Plan) -> tuple[list[Scanned], Parts]:
    scanned, parts = scan_rows(path), Parts(plan)
    if isinstance(path, Mapped):
        parts.check(path)
    return scanned, parts


class Parts:
    """What a row of a plan is made of. `extra` is what it may hold besides inputs and value, unless it is an input."""

    def __init__(self, plan: Plan, *, extra: Collection[str] = (CATEGORY, ACCEPTED, THOUGHT)) -> None:
        self._plan = plan
        self._types = dict(plan.types)
        self._inputs = {input.name: input for input in plan.inputs}
        self._extra = {*extra} - {*self._inputs}
        self._known = {*self._inputs, VALUE, *self._extra}
        fields = plan.output.fields if isinstance(plan.output, t.Object) else ()
        self._types_of_keys = {field.key: field.type for field in fields}

    def check(self, given: Mapped) -> None:
        """Raises `BadData` for a part that rows do not have."""
        for part in given.columns:
            if not self.has(part):
                hint = did_you_mean(part, self._known)
                known = (
                    f"did you mean `{hint}`?" if hint else f"a row has {_listed(self._known)} and the keys of the value"
                )
                raise BadData(f"--map: a row has no `{part}`; {known}")

    def left_out(self, rows: Iterable[dict[str, JsonValue] | BadRow]) -> tuple[str, ...]:
        names = (name for row in rows if isinstance(row, TableRow) for name in row)
        return tuple(name for name in dict.fromkeys(names) if not self.has(name))

    def has(self, name: str) -> bool:
        return name in self._known or self._key_of(name) is not None

    def _key_of(self, name: str) -> str | None:
        """The key of the value that a column holds: `value.brand`, or `brand` if nothing else has that name."""
        if name.startswith(f"{VALUE}."):
            return name.removeprefix(f"{VALUE}.")
        return name if name in self._types_of_keys and name not in self._known else None

    def row(self, origin: str, row: dict[str, JsonValue] | BadRow) -> Row:
        """Raises `BadRow`."""
        if isinstance(row, BadRow):
            raise row
        parts = self._of_table(row) if isinstance(row, TableRow) else row
        if VALUE not in parts:
            raise BadRow(f"the key `{VALUE}` is missing: it holds the right answer", origin=origin)
        asked = self._asked(origin, parts)
        thought = parts.get(THOUGHT) if THOUGHT in self._extra else None
        values = self._readings(parts[VALUE]) if isinstance(row, TableRow) else iter((parts[VALUE],))
        try:
            value, answer = self._answer(values, asked.bound, thought)
        except BadRow as problem:
            raise problem.at(origin) from None
        accepted = parts.get(ACCEPTED) if ACCEPTED in self._extra else None
        return Row(origin, asked.inputs, value, answer, asked.category, accepted, thought)

    def labelled(self, row: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The inputs and the value, whose keys may stand beside them. An empty cell that is no value is no label."""
        if isinstance(row, TableRow):
            given = {name: cell for name, cell in row.items() if self._is_label(name, cell)}
            return self._of_table(TableRow(given))
        value = {key: cell for name, cell in row.items() if (key := self._key_of(name)) is not None}
        inputs = {name: cell for name, cell in row.items() if name in self._known}
        return {VALUE: value, **inputs} if value else inputs

    def asked_or_bad(self, origin: str, row: Mapping[str, Any] | BadRow) -> Asked | BadRow:
        """The inputs of a row, whose value may be missing."""
        if isinstance(row, BadRow):
            return row
        try:
            return self._asked(origin, self._of_table(row) if isinstance(row, TableRow) else row)
        except BadRow as problem:
            return problem

    def row_or_asked(self, origin: str, row: dict[str, JsonValue] | BadRow) -> Row | Asked | BadRow:
        try:
            parts = self._of_table(row) if isinstance(row, TableRow) else row
            return self.row(origin, row) if isinstance(parts, BadRow) or VALUE in parts else self._asked(origin, parts)
        except BadRow as problem:
            return problem

    def _asked(self, origin: str, parts: Mapping[str, Any]) -> Asked:
        unread = {VALUE, *self._extra, *({ID} - {*self._inputs})}
        inputs = {key: with_scalars(item, lambda one: one) for key, item in parts.items() if key not in unread}
        category = str(parts.get(CATEGORY) or "") if CATEGORY in self._extra else ""
        try:
            return Asked(origin, inputs, bind_inputs(self._plan, inputs), category)
        except InputError as problem:
            raise BadRow(str(problem), origin=origin) from problem

    def _answer(
        self, values: Iterator[JsonValue], inputs: Mapping[str, Any], thought: JsonValue
    ) -> tuple[JsonValue, Answer]:
        """The first of these values that fits, with its answer. Raises what is wrong with the last one."""
        problem: BadRow | None = None
        for value in values:
            try:
                return value, answer_of(self._plan, value, inputs, thought=thought)
            except BadRow as found:
                problem = found
        assert problem is not None
        raise problem

    def _readings(self, value: JsonValue) -> Iterator[JsonValue]:
        type = self._plan.output
        for one in readings(value):
            yield one if type is None else self._shaped(type, one)

    def _of_table(self, row: TableRow) -> dict[str, JsonValue]:
        """The parts that the columns of a table stand for. Columns `value.KEY` are the keys of one object."""
        parts = {name: cell for name, cell in row.items() if name in self._known}
        for name, input in self._inputs.items():
            if name in parts and (parts[name] in (None, "") and input.default is not None):
                del parts[name]
            elif name in parts and not input.is_text:
                *_, parts[name] = readings(parts[name])
        if isinstance(spelled := parts.get(ACCEPTED), str) and ACCEPTED in self._extra:
            *_, parts[ACCEPTED] = readings(spelled)
        keys = [(self._key_of(name), cell) for name, cell in row.items()]
        value: dict[str, JsonValue] = {key: self._cell(key, cell) for key, cell in keys if key is not None}
        if value and VALUE not in parts:
            parts[VALUE] = value
        return parts

    def _is_label(self, name: str, cell: JsonValue) -> bool:
        type = self._types_of_keys.get(self._key_of(name) or "")
        return type is None or cell not in (None, "") or any(self._fits(type, one) for one in readings(cell))

    def _cell(self, key: str, cell: JsonValue) -> JsonValue:
        """The value of a key as its type has it, or as the table has it if it fits in no way."""
        type = self._types_of_keys.get(key)
        if type is None:
            return next(readings(cell))
        found = [self._shaped(type, one) for one in readings(cell)]
        return next((one for one in found if self._fits(type, one)), found[0])

    def _shaped(self, type: t.Type, value: JsonValue) -> JsonValue:
        """Without the nulls that a column of structs has for the keys that an object lacks."""
        if isinstance(type, t.Named) and type.name in self._types:
            return self._shaped(self._types[type.name], value)
        if isinstance(type, t.Object) and isinstance(value, dict):
            known = {field.key: field.type for field in type.fields}
            shaped = {key: self._shaped(known[key], item) if key in known else item for key, item in value.items()}
            return {key: item for key, item in shaped.items() if item is not None or self._takes_null(known, key)}
        if isinstance(type, t.Union) and isinstance(value, dict | list):
            found = (self._shaped(arm, value) for arm in type.arms)
            return next((one for arm, one in zip(type.arms, found, strict=True) if self._fits(arm, one)), value)
        if isinstance(value, list):  # of the type, or of stacked documents
            item = type.item if isinstance(type, t.Array) else type
            return [self._shaped(item, one) for one in value]
        return value

    def _takes_null(self, known: Mapping[str, t.Type], key: str) -> bool:
        return key in known and self._fits(known[key], None)

    def _fits(self, type: t.Type, value: JsonValue) -> bool:
        return not fit(type, value, self._types)[1]


def read_rows(path: RowFile) -> list[tuple[str, dict[str, JsonValue]]]:
    """Every row as an object, with its origin. Raises `BadRow` for the first that is not one."""
    rows = []
    for origin, row in scan_rows(path):
        if isinstance(row, BadRow):
            raise row
        rows.append((origin, _untyped(row) if isinstance(row, TableRow) else row))
    return rows


def _untyped(row: TableRow) -> dict[str, JsonValue]:
    """A row of a table without a plan that would say what its cells are: those that are not texts spell JSON."""
    found: dict[str, JsonValue] = {}
    keys: dict[str, JsonValue] = {}
    for name, cell in row.items():
        if name.startswith(f"{VALUE}."):
            ways = list(readings(cell))
            keys[name.removeprefix(f"{VALUE}.")] = ways[-1] if isinstance(ways[-1], dict | list) else ways[0]
        else:
            *_, found[name] = readings(cell) if name != CATEGORY else (cell,)
    return found if VALUE in found or not keys else {**found, VALUE: keys}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


# ── validation ───────────────────────────────────────────────────────────────────────────────────────────────


FEWEST = 20  # rows; with fewer, every row is trained on
_MOST = 200  # rows held out: each of them is decoded at every validation


def held_out(rows: Sequence[Row], share: float) -> frozenset[int]:
    """The numbers of the rows to validate with.

    Which they are depends on their inputs alone: rows with the same inputs stay together, and other rows of the file
    do not move them much.
    """
    if len(rows) < FEWEST or not share:
        return frozenset()
    names = [_name(row) for row in rows]
    room, chosen = min(_MOST, max(1, round(share * len(rows)))), set[str]()
    for name, count in sorted(Counter(names).items()):
        if count <= room and count < len(rows):
            chosen.add(name)
            room -= count
    return frozenset(number for number, name in enumerate(names) if name in chosen)


def _name(row: Row) -> str:
    return hashlib.sha256(json.dumps(dict(row.inputs), sort_keys=True, default=repr).encode()).hexdigest()
