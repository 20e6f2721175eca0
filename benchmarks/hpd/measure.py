"""Decode held-out documents, score the answers, and measure passes and seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.hpd import clock
from benchmarks.hpd.documents import Corpus, Document
from benchmarks.hpd.programs import TEXT, plans_of
from benchmarks.hpd.rival import AT_ONCE, first_object, generate
from pastalang.plan.branches import Mode
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.loading import load_model, load_tokenizer, load_weights
from pastalang.training.evaluation import Decoding, Request, decode
from pastalang.training.metrics import Counts, Example, Outcome, evaluate, field_texts, judge

CELLS = 65_536


@dataclass(frozen=True, slots=True)
class Way:
    """How documents are decoded: a limit of tokens per value, documents in one sequence, requests in one batch."""

    mode: Mode
    limit: int = 30
    stack: int = 1
    batch: int = 64


@dataclass
class Bench:
    """One engine for all copies of a model, so that what it has compiled for a document is not compiled again.

    In float32, so that rounding does not depend on the batch size, and without a prefix cache.
    """

    device: str
    _engine: Engine | None = None

    def engine(self, folder: Path) -> Engine:
        """The engine, with the weights in this folder."""
        if self._engine is None:
            self._engine = Engine.load(folder, device=self.device, dtype=torch.float32, cells=CELLS, prefix_cells=0)
        else:
            found = load_model(folder, device=self.device, dtype=torch.float32, with_transformers=False)
            self._engine.model = self._engine.loop.model = found.model(cells=CELLS)
        return self._engine


def load_engine(folder: Path) -> Engine:
    return Bench("cpu").engine(folder)


def measure(engine: Engine, corpus: Corpus, documents: Sequence[Document], way: Way) -> dict[str, Any]:
    """Scores in per cent, passes of a document, seconds; `per_document`: right, given and expected values; `written`:
    the tokens of an answer with its keys, each of which would take `generate` a pass."""
    groups, decoding, seconds = run(engine, corpus, documents, way)
    examples: dict[int, Example] = {}
    for numbers, decoded in zip(groups, decoding.rows, strict=True):
        found = dict(zip(numbers, zip(decoded.values, decoded.truncated, strict=False), strict=False))
        for number in numbers:
            value, truncated = found.get(number, (None, False))
            predicted = None if decoded.problem else field_texts(value)
            examples[number] = example_of(documents[number], predicted, truncated=truncated)
    ordered = [examples[number] for number in range(len(documents))]
    report = evaluate(ordered, asked=_asked(corpus, documents))
    written = [
        json.dumps(value, ensure_ascii=False) for row in decoding.rows if not row.problem for value in row.values
    ]
    return {
        **scores(report, ordered),
        "passes": sum(row.passes for row in decoding.rows) / max(1, len(documents)),
        "written": sum(map(engine.encoder.count, written)) / max(1, len(written)) + 1,
        "seconds": seconds,
        "machine": clock.machine(),
        "problems": sorted({row.problem for row in decoding.rows if row.problem}),
    }


def measure_free(folder: Path, corpus: Corpus, documents: Sequence[Document], *, device: str) -> dict[str, Any]:
    """The same of `generate`, which writes the keys, too."""
    weights, tokenizer = plain_weights(folder, device), load_tokenizer(folder)
    generate(weights, tokenizer, corpus, documents[:1], 1, ends=True)
    began = clock.now()
    texts, counts = generate(weights, tokenizer, corpus, documents, AT_ONCE, ends=True)
    seconds = clock.now() - began
    examples = [example_of(one, first_object(text)) for one, text in zip(documents, texts, strict=True)]
    passes = sum(counts) / max(1, len(counts))
    report = evaluate(examples, asked=_asked(corpus, documents))
    return {**scores(report, examples), "passes": passes, "written": passes, "seconds": seconds, "texts": texts[:5]}


def plain_weights(folder: Path, device: str) -> Any:
    """A model of transformers, for `generate`."""
    weights = load_weights(folder, device=device, dtype=torch.float32)
    weights.set_attn_implementation("sdpa")
    return weights


def run(
    engine: Engine, corpus: Corpus, documents: Sequence[Document], way: Way
) -> tuple[list[list[int]], Decoding, float]:  # fmt: skip
    """The numbers of the documents of each request, the decoded answers, and the seconds taken."""
    groups = stacks(documents, way.stack)
    requests: list[Request] = []
    for numbers in groups:
        plans = plans_of(corpus.asked[documents[numbers[0]].category], way.limit, way.stack > 1)
        texts = [documents[number].text for number in numbers]
        requests.append((plans(way.mode), {TEXT: texts if way.stack > 1 else texts[0]}))
    began = clock.now()
    decoding = decode(engine, requests, batch=way.batch, any_mode=True)
    return groups, decoding, clock.now() - began


def example_of(document: Document, predicted: Mapping[str, str | None] | None, *, truncated: bool = False) -> Example:
    accepted = {name: list(values) for name, values in document.accepted.items()}
    return Example(document.category, accepted, predicted, truncated)


def scores(report: Any, examples: Sequence[Example]) -> dict[str, Any]:
    return {
        "documents": report.documents,
        "f1": report.reported.f1,
        "strict_f1": report.strict.f1,
        "macro_f1": report.macro_f1,
        "hallucinated": report.strict.hallucination_rate,
        "unreadable": report.unparseable_rate,
        "truncated": report.truncated_rate,
        "counts": asdict(report.reported),
        "per_document": [_tally(example) for example in examples],
    }


def _tally(example: Example) -> list[int]:
    outcomes = [judge(example, name) for name in example.expected]
    given = sum(one in (Outcome.ABSENT_BUT_FILLED, Outcome.PRESENT_CORRECT, Outcome.PRESENT_WRONG) for one in outcomes)
    present = sum(
        one in (Outcome.PRESENT_LEFT_EMPTY, Outcome.PRESENT_CORRECT, Outcome.PRESENT_WRONG) for one in outcomes
    )
    return [sum(one is Outcome.PRESENT_CORRECT for one in outcomes), given, present]


def f1_of(counts: Mapping[str, int]) -> float:
    return Counts(**counts).f1


def _asked(corpus: Corpus, documents: Sequence[Document]) -> dict[str, tuple[str, ...]]:
    return {document.category: corpus.asked[document.category] for document in documents}


def stacks(documents: Sequence[Document], size: int) -> list[list[int]]:
    """Stacks of `size` documents of one category. The last stack of a category may be smaller."""
    by_category: dict[str, list[int]] = {}
    for number, document in enumerate(documents):
        by_category.setdefault(document.category, []).append(number)
    return [numbers[first : first + size] for numbers in by_category.values() for first in range(0, len(numbers), size)]
