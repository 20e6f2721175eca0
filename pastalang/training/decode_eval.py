"""Let a model answer rows through the engine, then score the answers and count what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pastalang.errors import PastaError
from pastalang.plan.plan import Plan
from pastalang.program.types import Sampling
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import Result
from pastalang.training.data import CATEGORY, VALUE, Row
from pastalang.training.metrics import (
    Accepted,
    Counts,
    Example,
    Report,
    all_accepted,
    count_fields,
    evaluate,
    example_of,
    report_on_texts,
)
from pastalang.values.json import JsonValue, spell_json

Request: TypeAlias = tuple[Plan, Mapping[str, Any]]
OnProgress: TypeAlias = Callable[[int], None]  # is called with the number of requests done


@dataclass(frozen=True, slots=True)
class Scored:
    """`problems`: the origin of each row that could not be decoded, and why. They count as unreadable."""

    decoding: Decoding
    report: Report
    fields: Mapping[str, Counts]
    problems: tuple[tuple[str, str], ...]


def score_rows_by_decoding(
    engine: Engine,
    plan: Plan,
    rows: Sequence[Row],
    *,
    batch: int,
    any_mode: bool = False,
    sampling: Sampling | None = None,
    on_progress: OnProgress | None = None,
) -> Scored:
    """A template in which the model opens threads has whole texts as answers: their words are compared."""
    accepted = [all_accepted(row.accepted, _right(row), row.origin) for row in rows]
    requests = [(plan, row.inputs) for row in rows]
    decoding = decode(engine, requests, batch=batch, any_mode=any_mode, sampling=sampling, on_progress=on_progress)
    found = zip((row.origin for row in rows), (decoded.problem for decoded in decoding.rows), strict=True)
    problems = tuple((origin, problem) for origin, problem in found if problem)
    if plan.auto is not None:
        report = _report_on_texts(rows, decoding)
        return Scored(decoding, report, {"answer": report.reported}, problems)
    triples = zip(rows, decoding.rows, accepted, strict=True)
    examples = [example for row, decoded, further in triples for example in _examples(row, decoded, further)]
    return Scored(decoding, evaluate(examples), count_fields(examples), problems)


def _report_on_texts(rows: Sequence[Row], decoding: Decoding) -> Report:
    pairs = [
        (right, value["answer"] if isinstance(value, dict) else None)
        for row, decoded in zip(rows, decoding.rows, strict=True)
        for right, value in zip(row.answer.plain_texts, decoded.values or (None,), strict=False)
    ]
    cut = sum(truncated for decoded in decoding.rows for truncated in decoded.truncated)
    return report_on_texts([(right, None if text is None else str(text)) for right, text in pairs], truncated=cut)


def prediction_lines(scored: Scored, rows: Sequence[Row]) -> str:
    """JSON lines in the order of the rows, as `read_examples` reads them."""
    lines = []
    for row, decoded in zip(rows, scored.decoding.rows, strict=True):
        value = list(decoded.values) if decoded.is_stacked else decoded.values[0]
        line: dict[str, JsonValue] = {VALUE: value, "truncated": any(decoded.truncated)}
        if row.category:
            line[CATEGORY] = row.category
        if decoded.problem:
            line["problem"] = decoded.problem
        lines.append(spell_json(line) + "\n")
    return "".join(lines)


def _examples(row: Row, decoded: Decoded, accepted: Sequence[Accepted]) -> Iterator[Example]:
    values = decoded.values if not decoded.problem else (None,) * len(accepted)
    cut = decoded.truncated if not decoded.problem else (False,) * len(accepted)
    for one, found, truncated, further in zip(_right(row), values, cut, accepted, strict=True):
        yield example_of(
            one, found, accepted=further, category=row.category, truncated=truncated, readable=not decoded.problem
        )


def _right(row: Row) -> list[JsonValue]:
    """The right value of every document."""
    right = row.answer.value if row.answer.is_stacked else [row.answer.value]
    assert isinstance(right, list)
    return right


@dataclass(frozen=True, slots=True)
class Decoded:
    """The outcome of one request: for each document, its value and whether a limit cut it. Only stacks hold several.

    If the run failed, `values` holds only None, and `problem` says why.
    """

    values: tuple[JsonValue, ...]
    truncated: tuple[bool, ...]
    passes: int
    is_stacked: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Passes that several requests share count for each of them."""

    rows: tuple[Decoded, ...]
    seconds: float

    @property
    def documents(self) -> int:
        return sum(len(row.values) for row in self.rows)

    @property
    def passes_per_document(self) -> float:
        """Counts only runs that did not fail."""
        done = [row for row in self.rows if not row.problem]
        return sum(row.passes for row in done) / max(1, sum(len(row.values) for row in done))

    @property
    def documents_per_second(self) -> float:
        return self.documents / self.seconds if self.seconds else 0.0


def decode(
    engine: Engine,
    requests: Sequence[Request],
    *,
    batch: int,
    any_mode: bool = False,
    sampling: Sampling | None = None,
    on_progress: OnProgress | None = None,
) -> Decoding:
    """Greedy unless the programs or `sampling` say otherwise. `batch` requests of one plan share their passes."""
    found: dict[int, Decoded] = {}
    began = time.perf_counter()
    for plan, numbers in _chunks(requests, batch):
        results = engine.batch(
            plan, [requests[number][1] for number in numbers], any_mode=any_mode, sampling=sampling, on_truncated="keep"
        )
        found |= {number: _decoded(result) for number, result in zip(numbers, results, strict=True)}
        if on_progress is not None:
            on_progress(len(found))
    seconds = time.perf_counter() - began
    return Decoding(tuple(found[number] for number in range(len(requests))), seconds)


def _chunks(requests: Sequence[Request], size: int) -> Iterable[tuple[Plan, list[int]]]:
    """The numbers of the requests, plan by plan."""
    by_plan: dict[int, list[int]] = {}
    for number, (plan, _) in enumerate(requests):
        by_plan.setdefault(id(plan), []).append(number)
    for numbers in by_plan.values():
        for first in range(0, len(numbers), size):
            yield requests[numbers[0]][0], numbers[first : first + size]


def _decoded(result: Result | PastaError) -> Decoded:
    if isinstance(result, PastaError):
        return Decoded((None,), (False,), 0, problem=str(result))
    return Decoded(
        tuple(answer.exact for answer in result.answers),
        tuple(any(field.truncated for field in answer.fields) for answer in result.answers),
        result.usage.forward_passes,
        result.is_stacked,
    )
