"""How a model does on a few labelled rows: the right values of each field in each way of asking, and what to change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pastalang.bulk.documents import records_of
from pastalang.bulk.rows import Task, extractions_of, object_of
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import InputError
from pastalang.hosts.opening import AnyEngine
from pastalang.plan.branches import Mode
from pastalang.program import types as t
from pastalang.program.program import InputKind, JsonBody
from pastalang.program.visit import arms_of, flat_arms
from pastalang.runtime.call import IN_FLIGHT, template_of
from pastalang.runtime.long_document import arm_of
from pastalang.values.fit import find_mismatches, is_absent
from pastalang.values.json import JsonValue, same_json, write_json
from pastalang.values.paths import path_text

WHOLE: Final = "the value"  # the name of an answer that is no object
_ENOUGH: Final = 0.8  # the share of right values of a field that needs no advice
_APART: Final = 0.1  # how much surer a model should be of right values than of wrong ones
_LONG: Final = 60  # characters of a value in a message
TRAIN: Final = "train, or choose another model"


class Way(StrEnum):
    """How all values are asked for: at the same time, from left to right, texts as quotations, keys in capitals."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    QUOTED = "quoted"
    CAPITALS = "capitals"


@dataclass
class FieldScore:
    """Right answers of a field, by the way of asking; of a way that was not tried, there is none."""

    name: str
    rows: int = 0
    right: dict[Way, int] = field(default_factory=dict)
    source: str = ""  # the input that it was quoted from
    spelled: str = ""  # its key in capitals
    labels: Counter[str] = field(default_factory=Counter)
    nulls: int = 0  # where there is a value
    sure_of_right: list[float] = field(default_factory=list)
    sure_of_wrong: list[float] = field(default_factory=list)
    example: tuple[str, str, str] | None = None  # the first wrong value: its row, what is right, what was given

    @property
    def parallel(self) -> int:
        return self.right.get(Way.PARALLEL, 0)

    @property
    def constant(self) -> int:
        """The rows in which the same value is right: what a model that never looks would get."""
        return max(self.labels.values(), default=0)

    @property
    def advice(self) -> str:
        more = max(2, self.rows / 5)
        other = {way: count for way, count in self.right.items() if way is not Way.PARALLEL}
        best = max(other, key=lambda way: (other[way], way is not Way.SEQUENTIAL), default=None)
        if best is not None and other[best] - self.parallel >= more:
            return self._change(best)
        if self.rows and self.parallel / self.rows >= _ENOUGH:
            is_apart = _are_apart(self.sure_of_right, self.sure_of_wrong)
            return "" if is_apart else "right, but its confidence does not separate right from wrong"
        if self.rows - self.parallel and self.nulls / (self.rows - self.parallel) > 1 / 2:
            return f"null in {self.nulls} rows that have a value: {TRAIN}"
        if len(self.labels) > 1 and self.constant > self.rows / 4 and self.parallel <= self.constant:
            return f"no better than one answer for all, right in {self.constant}: {TRAIN}"
        return TRAIN

    def _change(self, way: Way) -> str:
        match way:
            case Way.QUOTED:
                return f'quote it: Verbatim("{self.source}"), in a program verbatim({self.source})'
            case Way.CAPITALS:
                return f'spell its key "{self.spelled}": in a type Field(alias="{self.spelled}")'
            case _:
                return "write it after the others: pasta extract --mode sequential, or `after`"

    def as_data(self) -> dict[str, Any]:
        return {
            "field": self.name, "rows": self.rows, **{way.value: self.right.get(way) for way in Way},
            "constant": self.constant, "confidence_of_right": mean(self.sure_of_right),
            "confidence_of_wrong": mean(self.sure_of_wrong), "example": self.example, "advice": self.advice,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """`fields` in the order of the values, `right` of `values` of all leaves, and the rows that failed with reasons."""

    fields: tuple[FieldScore, ...]
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def values(self) -> int:
        return sum(one.rows for one in self._leaves)

    @property
    def right(self) -> int:
        return sum(one.parallel for one in self._leaves)

    @property
    def share(self) -> float:
        return self.right / max(self.values, 1)

    @property
    def tells_right_from_wrong(self) -> bool:
        """Whether it is surer of its right values than of its wrong ones, all fields together."""
        right = [sure for one in self.fields for sure in one.sure_of_right]
        return _are_apart(right, [sure for one in self.fields for sure in one.sure_of_wrong])

    @property
    def _leaves(self) -> list[FieldScore]:
        """Without lists whose items are counted."""
        names = {one.name for one in self.fields}
        return [one for one in self.fields if not any(name.startswith(f"{one.name}[]") for name in names)]


class Labelled(NamedTuple):
    """A row: where it stands, the inputs by name, and the right value, which may lack keys that nobody labelled."""

    origin: str
    inputs: Mapping[str, Any]
    value: JsonValue


def try_rows(engine: AnyEngine, task: Task, rows: Sequence[Labelled]) -> Trial:
    """Asks for every row in each way that the task allows."""
    types = task.program.types
    scores: dict[str, FieldScore] = {}
    failed: list[tuple[str, str]] = []
    for asked in _ways(task, rows):
        options = {**task.options, "mode": asked.mode.value, "any_mode": True, "on_truncated": "keep"}
        records = records_of([row.inputs for row in rows], task.read)
        found = extractions_of(engine, replace(asked.task, options=options), records, in_flight=IN_FLIGHT)
        for row, (_, one) in zip(rows, found, strict=True):
            answer = asked.plain(None if one.run is None else one.run.exact)
            sure = {each.where: each.confidence for each in one.fields}
            if one.problem is not None and one.run is None and asked.way is Way.PARALLEL:
                failed.append((row.origin, one.problem))
            for pair in _pairs(_type_of(task), row.value, answer, types):
                if asked.way is Way.QUOTED and pair.name not in asked.names:
                    continue
                score = scores.setdefault(pair.name, FieldScore(pair.name))
                _count(score, asked.way, row.origin, pair, sure if one.run is not None else None)
                if asked.way is Way.QUOTED:
                    score.source = asked.names[pair.name]
                elif asked.way is Way.CAPITALS:
                    key, *below = re.split(r"(?=[.\[])", pair.name, maxsplit=1)
                    score.spelled = "" if below else asked.names.get(key, "")
    return Trial(tuple(scores.values()), tuple(failed))


def _count(score: FieldScore, way: Way, origin: str, pair: _Pair, sure: Mapping[str, float] | None) -> None:
    """`sure` is how confident the model is at each place; None if the row failed. Then not even null is right."""
    is_right = sure is not None and same_json(pair.right, pair.given)
    score.right[way] = score.right.get(way, 0) + is_right
    if way is not Way.PARALLEL:
        return
    score.rows += 1
    score.labels[write_json(pair.right)] += 1
    score.nulls += sure is not None and pair.given is None and pair.right is not None
    found = [value for where, value in (sure or {}).items() if where == pair.where or _is_below(where, pair.where)]
    if found:
        (score.sure_of_right if is_right else score.sure_of_wrong).append(min(found))
    if not is_right and score.example is None:
        score.example = origin, _shown(pair.right), _shown(pair.given) if sure is not None else "failed"


def mean(numbers: Sequence[float]) -> float | None:
    return round(sum(numbers) / len(numbers), 2) if numbers else None


def _are_apart(sure_of_right: Sequence[float], sure_of_wrong: Sequence[float]) -> bool:
    right, wrong = mean(sure_of_right), mean(sure_of_wrong)
    return right is None or wrong is None or right - wrong >= _APART


def _is_below(where: str, above: str) -> bool:
    return where.startswith((f"{above}.", f"{above}["))


def _shown(value: JsonValue) -> str:
    text = write_json(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Pair(NamedTuple):
    """`name` is the same for all items of a list, `lines[].total`; `where` is its own, `lines[0].total`."""

    name: str
    where: str
    right: JsonValue
    given: JsonValue


def _pairs(
    type: t.Type, right: JsonValue, given: JsonValue, types: Mapping[str, t.Type], *path: str | int
) -> Iterator[_Pair]:
    """The labelled parts of a value, each with what was given in its place."""
    shape = arm_of(type, right, types)
    if isinstance(right, dict) and isinstance(shape, t.Object):
        for one in shape.fields:
            if one.key in right or is_absent(one, None):
                part = given.get(one.key) if isinstance(given, dict) else None
                yield from _pairs(one.type, right.get(one.key), part, types, *path, one.key)
        return
    name = "".join("[]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    yield _Pair(name or WHOLE, path_text(path), right, given)
    if not isinstance(right, list) or not isinstance(shape, t.Array):
        return
    if not any(isinstance(arm, t.Object) for arm in arms_of(shape.item, types)):
        return
    for number, item in enumerate(right):
        part = given[number] if isinstance(given, list) and number < len(given) else None
        yield from _pairs(shape.item, item, part, types, *path, number)


def _type_of(task: Task) -> t.Type:
    body = template_of(task.program, task.template).messages[-1].body
    if not isinstance(body, JsonBody) or task.is_stacked:
        raise InputError("rows are tried with programs that answer with one JSON value for each row")
    return body.type


def check_labels(task: Task, rows: Sequence[Labelled]) -> list[str]:
    """What cannot be right in the labels, with its row. Raises `InputError` for a key that values do not have."""
    type, types = _type_of(task), task.program.types
    if all(row.value == {} for row in rows):
        raise InputError("no row has a label: `value` says what is right")
    found: list[str] = []
    for row in rows:
        shape = arm_of(type, row.value, types)
        keys = {one.key: one.type for one in shape.fields} if isinstance(shape, t.Object) else {}
        sources = {name: text for name, text in row.inputs.items() if isinstance(text, str)}
        if keys and isinstance(row.value, dict):
            for key in row.value.keys() - keys.keys():
                near = did_you_mean(key, keys)
                hint = f"did you mean `{near}`?" if near else f"they have {', '.join(f'`{one}`' for one in keys)}"
                raise InputError(f"{row.origin}: the values have no `{key}`; {hint}")
        parts = row.value.items() if keys and isinstance(row.value, dict) else [(WHOLE, row.value)]
        for key, value in parts:
            for each in find_mismatches(keys.get(key, type), value, types, sources=sources)[:1]:
                place = f"{key}{'' if each.where.startswith('[') or not each.where else '.'}{each.where}"
                found.append(f"{row.origin}: `{place}` {each.reason}")
    return found


# ── ways of asking ───────────────────────────────────────────────────────────────────────────────────────────


class _Asked(NamedTuple):
    """`names` are the inputs that fields are quoted from, or the keys in capitals. `plain` gives the keys back."""

    way: Way
    mode: Mode
    task: Task
    names: Mapping[str, str] = {}
    plain: Callable[[JsonValue], JsonValue] = lambda answer: answer


def _ways(task: Task, rows: Sequence[Labelled]) -> Iterator[_Asked]:
    yield _Asked(Way.PARALLEL, Mode.STRICT, task)
    yield _Asked(Way.SEQUENTIAL, Mode.SEQUENTIAL, task)
    sources = _quotable(task, rows)
    if sources:
        yield _Asked(Way.QUOTED, Mode.STRICT, _with_fields(task, lambda one: _quoted(one, sources)), sources)
    keys = {key: capitals(key) for key in (one.key for one in _fields(task)) if _is_lower(key)}
    if keys and len({*keys.values()}) == len(keys):
        before = {spelled: key for key, spelled in keys.items()}

        def plain(answer: JsonValue) -> JsonValue:
            if not isinstance(answer, dict):
                return answer
            return {before.get(key, key): part for key, part in answer.items()}

        yield _Asked(Way.CAPITALS, Mode.STRICT, _with_fields(task, lambda one: _respelled(one, keys)), keys, plain)


def capitals(key: str) -> str:
    """`roast_type` as product data spell it: `Roast type`."""
    words = key.replace("_", " ")
    return words[:1].upper() + words[1:]


def _is_lower(key: str) -> bool:
    return key[:1].islower() and key == key.lower()


def _fields(task: Task) -> tuple[t.Field, ...]:
    shape = object_of(task)
    return () if shape is None else shape.fields


def _quotable(task: Task, rows: Sequence[Labelled]) -> dict[str, str]:
    """The texts whose right values stand in an input, each with the input that most of them stand in."""
    texts = [one.name for one in task.inputs if one.type is InputKind.TEXT and not one.each]
    found: dict[str, str] = {}
    for one in _fields(task):
        if not any(isinstance(arm, t.String) for arm in flat_arms(one.type)):
            continue
        labels = [(row.inputs, row.value.get(one.key)) for row in rows if isinstance(row.value, dict)]
        counts = {name: sum(_stands_in(label, inputs.get(name)) for inputs, label in labels) for name in texts}
        best = max(counts, key=lambda name: counts[name], default=None)
        if best is not None and counts[best]:
            found[one.key] = best
    return found


def _stands_in(label: JsonValue, text: object) -> bool:
    return isinstance(label, str) and label != "" and label in str(text)


def _quoted(one: t.Field, sources: Mapping[str, str]) -> t.Field:
    if one.key not in sources:
        return one
    source = sources[one.key]
    arms = [t.Verbatim(source, arm.max_tokens) if isinstance(arm, t.String) else arm for arm in flat_arms(one.type)]
    return replace(one, type=arms[0] if len(arms) == 1 else t.Union(tuple(dict.fromkeys(arms))))


def _respelled(one: t.Field, keys: Mapping[str, str]) -> t.Field:
    after = tuple(keys.get(key, key) for key in one.after)
    return replace(one, key=keys.get(one.key, one.key), name=one.name or one.key, after=after)


def _with_fields(task: Task, change: Callable[[t.Field], t.Field]) -> Task:
    """The task with other fields of its values, which no type validates then."""
    template, shape = template_of(task.program, task.template), object_of(task)
    last = template.messages[-1]
    assert isinstance(last.body, JsonBody) and shape is not None
    fields = tuple(map(change, shape.fields))
    answer = replace(last, body=replace(last.body, type=replace(shape, fields=fields)))
    changed = replace(template, messages=(*template.messages[:-1], answer))
    program = replace(task.program, templates={**task.program.templates, template.name: changed})
    return replace(task, program=program, type=None)
