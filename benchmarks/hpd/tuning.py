"""Fine-tune copies of the base model for one mode or for all, with the same documents and the same number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from benchmarks.hpd.documents import Corpus
from benchmarks.hpd.programs import lesson_of
from benchmarks.hpd.work import Work
from pastalang.plan.branches import Mode
from pastalang.runtime.models.training_note import FILE, TrainingNote
from pastalang.training.batches import PackedBatches
from pastalang.training.errors import BadRow
from pastalang.training.model_files import save
from pastalang.training.recording import Recorder, TrainingRow
from pastalang.training.settings import Settings, TrainingMode
from pastalang.training.trainer import train

LIMITS = (10, 30)
_SAMPLE = 20  # documents that say how long a row is


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of every tuning of a data set: `rows` lines of `length` tokens in each of `steps` updates."""

    steps: int
    rows: int
    length: int
    learning_rate: float
    seed: int


@dataclass
class Lessons:
    """The training part as rows. The rows of a mode are recorded when they are first needed."""

    corpus: Corpus
    tokenizer: Any
    budget: Budget
    left_out: int = 0
    _recorder: Recorder = field(init=False)
    _known: dict[Mode, list[TrainingRow | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._recorder = Recorder(self.tokenizer)

    def variants(self, modes: Sequence[Mode]) -> list[list[TrainingRow]]:
        """Every document in each of the modes. A document that some mode cannot be taught is left out of all."""
        chosen = self._chosen()
        ways = [self._rows(mode, chosen) for mode in modes]
        found = [[row for row in rows if row is not None] for rows in zip(*ways, strict=True)]
        self.left_out = sum(len(rows) < len(modes) for rows in found)
        return [rows for rows in found if len(rows) == len(modes)]

    def _chosen(self) -> list[int]:
        """As many documents as the budget can show once, shuffled; all of them if there are fewer."""
        order = list(range(len(self.corpus.train)))
        Random(self.budget.seed).shuffle(order)
        sample = [len(row) for row in self._rows(Mode.STRICT, order[:_SAMPLE]) if row is not None]
        self._known.pop(Mode.STRICT)
        mean = sum(sample) / max(1, len(sample))
        shown = self.budget.steps * self.budget.rows * self.budget.length / max(1.0, mean)
        return order[: max(_SAMPLE, int(shown) + 1)]

    def _rows(self, mode: Mode, numbers: Sequence[int]) -> list[TrainingRow | None]:
        known = self._known.get(mode)
        if known is None or len(known) != len(numbers):
            known = self._known[mode] = [self._row(number, mode) for number in numbers]
        return known

    def _row(self, number: int, mode: Mode) -> TrainingRow | None:
        """Recorded with a random token limit, or with the highest one if a value is too long for it."""
        document = self.corpus.train[number]
        drawn = Random(f"{self.budget.seed}/{number}").choice(LIMITS)
        for limit in dict.fromkeys((drawn, max(LIMITS))):
            try:
                row = self._recorder.row(lesson_of(self.corpus, document, limit, origin=document.title), mode)
            except BadRow:
                continue
            return row if len(row) <= self.budget.length else None
        return None


def tune(base: Path, lessons: Lessons, tuning: TrainingMode, budget: Budget, work: Work) -> Path:
    """The folder of the tuned weights. Reuses those of an earlier run. Raises `OutOfTime`."""
    folder = work.folder / "weights" / lessons.corpus.name / tuning
    if (folder / FILE).is_file():
        return folder
    work.check_time()
    work.report(f"── {lessons.corpus.name}: tuning for {tuning}")
    variants = lessons.variants(tuning.modes)
    work.report(f"   {len(variants)} documents, {lessons.left_out} left out")
    torch.manual_seed(budget.seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = Settings(
        steps=budget.steps, learning_rate=budget.learning_rate, warmup_steps=max(1, budget.steps // 10),
        weight_decay=0.01, save_every=25, seed=budget.seed,
    )  # fmt: skip
    batches = PackedBatches(variants, rows=budget.rows, length=budget.length, seed=budget.seed)
    train(model, batches, settings, folder / "training", identity={"work": work.folder.name}, report=work.report)
    save(model, lessons.tokenizer, TrainingNote(tuning.modes, "", "", "", {"string": max(LIMITS)}), folder)
    return folder
