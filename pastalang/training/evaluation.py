"""Let a model answer rows through the engine and score the answers, also during training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from pastalang.failures import PastaError
from pastalang.plan.plan import Plan
from pastalang.program.types import Sampling
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.reference import attention_of
from pastalang.runtime.models.step_attention import ATTENTION
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.request_window import RequestWindow
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.state import RequestState
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
from pastalang.training.recording import Drawn, drawn_of
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
    accepted = [accepted_by(row) for row in rows]
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


def accepted_by(row: Row) -> list[Accepted]:
    """What is as right as the values of the row's documents. Raises `BadRow`."""
    return all_accepted(row.accepted, _right(row), row.origin)


def _report_on_texts(rows: Sequence[Row], decoding: Decoding) -> Report:
    pairs = [
        (right, value["answer"] if isinstance(value, dict) else None)
        for row, decoded in zip(rows, decoding.rows, strict=True)
        for right, value in zip_longest(row.answer.plain_texts, decoded.values)  # a run that failed has no values
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
    """Greedy unless the programs or `sampling` say otherwise. `batch` requests share their passes."""
    options: dict[str, Any] = {"any_mode": any_mode, "sampling": sampling, "on_truncated": "keep"}
    found: list[Decoded] = []
    for plan in {id(plan): plan for plan, _ in requests}.values():
        engine.batch(plan, [], **options)  # what is wrong with a plan or an option is wrong for all its requests
    began = time.perf_counter()

    def request(at: Mapping[str, Any]) -> RequestState:
        plan, inputs = requests[at["number"]]
        return engine.prepare(plan, inputs, options, with_events=False)

    window = RequestWindow(engine.loop, request, engine.outcome_of, batch)
    for _, result in window.outcomes({"number": number} for number in range(len(requests))):
        found.append(_decoded(result))
        if on_progress is not None:
            on_progress(len(found))
    return Decoding(tuple(found), time.perf_counter() - began)


def _decoded(result: Result | PastaError) -> Decoded:
    if isinstance(result, PastaError):
        return Decoded((None,), (False,), 0, problem=str(result))
    return Decoded(
        tuple(answer.exact for answer in result.answers),
        tuple(any(field.truncated for field in answer.fields) for answer in result.answers),
        result.usage.forward_passes,
        result.is_stacked,
    )


# ── during training ──────────────────────────────────────────────────────────────────────────────────────────


BATCH: Final = 8  # rows that share forward passes


@dataclass(frozen=True, slots=True)
class Score:
    """What one evaluation has found: all scores, and the counts of each field."""

    report: Report
    fields: Mapping[str, Counts]

    @property
    def f1(self) -> float:
        return self.report.reported.f1

    def as_data(self) -> dict[str, Any]:
        strict = self.report.strict
        return {
            "f1": self.f1,
            "hallucination_rate": strict.hallucination_rate,
            "fields": {name: counts.f1 for name, counts in self.fields.items()},
            "counts": asdict(self.report.reported),
        }


@dataclass
class Evaluation:
    """Rows to answer, and the plans to answer them with, by name.

    The engine is made once and keeps no prompts, since the weights change between two calls.
    """

    rows: Sequence[Row]
    plans: Mapping[str, Plan]
    tokenizer: Any
    cells: int = 8192
    _engine: Engine | None = field(default=None, init=False)

    def scores(self, model: Any, names: Iterable[str] | None = None) -> dict[str, Score]:
        """Of the plans with these names, or of all of them. Leaves the model as it was."""
        with self._on(model) as engine:
            return {name: self._score(engine, self.plans[name]) for name in names or self.plans}

    def drawn(self, model: Any, name: str, most: int) -> list[tuple[Row, Drawn]]:
        """What the model draws for the first rows. Leaves the model as it was."""
        rows = self.rows[:most]
        with self._on(model) as engine:
            found = engine.batch(self.plans[name], [row.inputs for row in rows], any_mode=True, on_truncated="keep")
        return [(row, drawn_of(one)) for row, one in zip(rows, found, strict=True)]

    @contextmanager
    def _on(self, model: Any) -> Iterator[Engine]:
        """An engine, as long as the context lasts."""
        bare = model.get_base_model() if hasattr(model, "get_base_model") else model
        was_training, before = model.training, bare.config._attn_implementation
        try:
            if self._engine is None:
                self._engine = Engine(TransformersModel(bare, cells=self.cells), self.tokenizer, prefix_cells=0)
            model.eval()
            with attention_of(bare, ATTENTION):
                yield self._engine
        finally:
            bare.set_attn_implementation(before)
            model.train(was_training)

    def _score(self, engine: Engine, plan: Plan) -> Score:
        found = score_rows_by_decoding(engine, plan, self.rows, batch=BATCH, any_mode=True)
        return Score(found.report, found.fields)
