"""What decoding fields at the same time changes on these documents: the same answers written from left to right.

Both modes answer the same documents, and their values are compared place by place. Where a field differs, the documents
concerned are decoded again with the field after others, so that an `after` is advised only where it was seen to help.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pastalang.bulk.documents import Document, records_of
from pastalang.bulk.rows import Task, extractions_of, text_of_id
from pastalang.failures import PastaError, TruncationWarning
from pastalang.hosts.opening import AnyEngine
from pastalang.plan.branches import Hole, Mode
from pastalang.plan.structure import walk_plan
from pastalang.plan.waits import ITEM, Pattern, Wait, name_of, possible_waits, with_waits, written
from pastalang.program.types import Sampling
from pastalang.runtime.call import template_of
from pastalang.runtime.errors import BadInputs
from pastalang.values.json import JsonValue, same_json, write_json

_EXAMPLES: Final = 3  # of a field that differs
_FIELDS_TRIED: Final = 4  # those that differ most
_DOCUMENTS_TRIED: Final = 8  # of each of them
_WAITS_TRIED: Final = 12
_ENOUGH: Final = 0.5  # of the documents tried that an `after` has to fix to be advised


@dataclass(frozen=True, slots=True)
class Example:
    """Values as JSON. `document` is its id, or the file and the row."""

    document: str
    parallel: str
    sequential: str


@dataclass(frozen=True, slots=True)
class Advice:
    """`after` as it is written in a program. In `fixes` of the `tried` documents it gave the value from left to right.

    `after` is None if no order that can be declared did so in half of them.
    """

    after: str | None
    fixes: int
    tried: int


@dataclass(frozen=True, slots=True)
class FieldAgreement:
    """One field, such as `lines[].total`. A list that differs in its length counts once, as the list."""

    field: str
    same: int
    of: int
    examples: tuple[Example, ...] = ()
    advice: Advice | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How often the fields of `documents` answers agree. `failed` documents had no value in one of the modes."""

    mode: str
    documents: int
    failed: int
    same: int  # documents that agree in every field
    fields: tuple[FieldAgreement, ...]
    notes: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))  # lists for tuples, as they are read back
        return found

    @staticmethod
    def of_data(found: Mapping[str, Any]) -> Comparison:
        """Raises `KeyError` or `TypeError` for data that is not one."""
        fields = (
            FieldAgreement(
                one["field"], one["same"], one["of"], tuple(Example(**each) for each in one["examples"]),
                None if one["advice"] is None else Advice(**one["advice"]),
            )
            for one in found["fields"]
        )  # fmt: skip
        return Comparison(**{**found, "fields": tuple(fields), "notes": tuple(found["notes"])})


def compare(engine: AnyEngine, task: Task, documents: Iterable[Any], *, in_flight: int) -> Comparison:
    """Decode the documents in the mode of the task and from left to right, and compare the values of each field.

    Raises `BadInputs` if the task is sequential itself.
    """
    if task.mode == Mode.SEQUENTIAL.value:
        raise BadInputs("a comparison is with the mode sequential; choose strict or lockstep for the run")
    chosen = list(records_of(documents, task.read))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        trial = _Trial(engine, task, in_flight)
        parallel = trial.values(chosen)
        sequential = trial.values(chosen, mode=Mode.SEQUENTIAL)
        pairs = [
            _Pair(document, one, other)
            for document, one, other in zip(chosen, parallel, sequential, strict=True)
            if one is not None and other is not None
        ]
        figures = _figures(pairs)
        worst = sorted((one for one in figures.values() if one.differing), key=lambda one: one.same / one.of)
        advice = {one.pattern: _advice(trial, one) for one in worst[:_FIELDS_TRIED]}
    fields = [one.summary(advice.get(one.pattern)) for one in figures.values() if one.is_shown]
    same = len(pairs) - len({id(pair) for one in figures.values() for pair in one.differing})
    return Comparison(task.mode, len(pairs), len(chosen) - len(pairs), same, tuple(fields), tuple(_notes(engine, task)))


def _notes(engine: AnyEngine, task: Task) -> Iterator[str]:
    note = engine.trained_for
    if note is not None and Mode.SEQUENTIAL not in note.modes:
        trained = ", ".join(mode.value for mode in note.modes)
        yield f"the weights were trained for {trained}: from left to right, values see texts that they never saw"
    if _is_sampled(task):
        yield "values are sampled, with other chances in each mode: a part of the differences is chance"


def _is_sampled(task: Task) -> bool:
    base = task.options.get("sampling") or Sampling()
    holes = (segment for _, _, segment in walk_plan(task.plan()) if isinstance(segment, Hole))
    return any(hole.sampling.over(base).temperature for hole in holes)


# ── values, place by place ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Pair:
    document: Document
    parallel: _Found
    sequential: _Found


@dataclass(frozen=True, slots=True)
class _Found:
    """A value; null is one too."""

    value: JsonValue


@dataclass
class _Figures:
    pattern: Pattern
    same: int = 0
    of: int = 0
    is_group: bool = False
    differing: list[_Pair] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)

    @property
    def is_shown(self) -> bool:
        """What consists of fields is shown if it differs itself: in its length, or in whether it is there."""
        return not self.is_group or bool(self.differing)

    def summary(self, advice: Advice | None) -> FieldAgreement:
        return FieldAgreement(name_of(self.pattern), self.same, self.of, tuple(self.examples), advice)


def _figures(pairs: Sequence[_Pair]) -> dict[Pattern, _Figures]:
    figures: dict[Pattern, _Figures] = {}
    for pair in pairs:
        for pattern, one, other, is_same in _places((), pair.parallel.value, pair.sequential.value):
            found = figures.setdefault(pattern, _Figures(pattern))
            found.of += 1
            found.same += is_same
            found.is_group |= isinstance(one, dict | list) and bool(one)
            if not is_same:
                if not found.differing or found.differing[-1] is not pair:
                    found.differing.append(pair)
                if len(found.examples) < _EXAMPLES:
                    name = text_of_id(pair.document.id) or pair.document.origin
                    found.examples.append(Example(name, _short(one), _short(other)))
    return figures


def _places(path: Pattern, one: JsonValue, other: JsonValue) -> Iterator[tuple[Pattern, JsonValue, JsonValue, bool]]:
    """The places that both values have, and whether they agree there. What only one has counts for what holds it."""
    match one, other:
        case dict(), dict():
            yield path, one, other, one.keys() == other.keys()
            for key in one:
                if key in other:
                    yield from _places((*path, key), one[key], other[key])
        case list(), list():
            yield path, one, other, len(one) == len(other)
            for left, right in zip(one, other, strict=False):
                yield from _places((*path, ITEM), left, right)
        case _:
            yield path, one, other, same_json(one, other)


def _short(value: JsonValue) -> str:
    text = write_json(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


# ── what would fix it ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Trial:
    engine: AnyEngine
    task: Task
    in_flight: int

    def values(self, documents: Sequence[Document], *, mode: Mode | None = None) -> list[_Found | None]:
        options = {**self.task.options, "any_mode": True} | ({} if mode is None else {"mode": mode.value})
        task = replace(self.task, options=options)
        pairs = extractions_of(self.engine, task, documents, in_flight=self.in_flight)
        return [_Found(found.run.exact) if found.run is not None else None for _, found in pairs]

    def fixed(self, figures: _Figures, waits: Iterable[Wait]) -> set[int]:
        """Which of the first documents that differ have the value from left to right if the field waits so."""
        template = template_of(self.task.program, self.task.template)
        task = replace(self.task, program=with_waits(self.task.program, template, list(waits)))
        tried = figures.differing[:_DOCUMENTS_TRIED]
        try:
            found = replace(self, task=task).values([pair.document for pair in tried])
        except PastaError:  # such as a plan that the wait would make too long
            return set()
        return {
            number
            for number, (pair, one) in enumerate(zip(tried, found, strict=True))
            if one is not None and _agree(figures.pattern, one.value, pair.sequential.value)
        }


def _agree(pattern: Pattern, one: JsonValue, other: JsonValue) -> bool:
    return all(is_same for at, _, _, is_same in _places((), one, other) if at == pattern)


def _advice(trial: _Trial, figures: _Figures) -> Advice | None:
    """The fewest fields that fix as many documents as all together; None for what no field stands before."""
    waits = _waits(trial.task, figures.pattern)[:_WAITS_TRIED]
    if not waits:
        return None
    tried = len(figures.differing[:_DOCUMENTS_TRIED])
    everything = trial.fixed(figures, waits)
    if len(everything) < _ENOUGH * tried:
        return Advice(None, len(everything), tried)
    alone = {wait: trial.fixed(figures, [wait]) for wait in waits} if waits[1:] else {}
    best = max(alone, key=lambda wait: len(alone[wait]), default=waits[0])
    if len(alone.get(best, everything)) >= len(everything):
        return Advice(written([best]), len(alone.get(best, everything)), tried)
    helpful = [wait for wait in waits if alone[wait]]
    if helpful and len(helpful) < len(waits) and len(some := trial.fixed(figures, helpful)) >= len(everything):
        return Advice(written(helpful), len(some), tried)
    return Advice(written(waits), len(everything), tried)


def _waits(task: Task, pattern: Pattern) -> list[Wait]:
    """What the field could wait for. The answers to stacked documents are a list, of which a program has one item."""
    is_stacked = any(one.each for one in task.inputs)
    return possible_waits(template_of(task.program, task.template), pattern[1:] if is_stacked else pattern)
