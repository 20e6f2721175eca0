"""Validation: the model in training answers held-out rows through the engine, and its answers are scored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pastalang.plan.plan import Plan
from pastalang.runtime.attention.attention import ATTENTION
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.reference import attention_of
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.training.data import Row
from pastalang.training.decode_eval import score_rows_by_decoding
from pastalang.training.lessons import drawn_of
from pastalang.training.metrics import Counts, Report
from pastalang.training.recording import Drawn

BATCH: Final = 8  # rows that share forward passes


@dataclass(frozen=True, slots=True)
class Score:
    """What one exam has found: all scores, and the counts of each field."""

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
class Exam:
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
