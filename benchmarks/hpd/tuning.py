"""Fine-tune copies of the base model for one mode or for all, with the same documents and the same number of steps."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from benchmarks.hpd.documents import Corpus
from benchmarks.hpd.programs import lesson_of
from benchmarks.hpd.rival import FREE, free_row
from benchmarks.hpd.work import Work
from pastalang.plan.branches import Mode
from pastalang.runtime.models.training_note import FILE, TrainingNote
from pastalang.training.batches import PackedBatches
from pastalang.training.errors import BadRow
from pastalang.training.model_files import save
from pastalang.training.recording import Recorder, TrainingRow
from pastalang.training.settings import Settings, TrainingMode
from pastalang.training.trainer import train, usual_precision

LIMITS = (10, 30)
_SHORT = 80  # tokens: few rows have fewer
_PART = 16  # documents that a process records at once


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
    """The training part as rows. They are recorded when they are first needed, or before by other processes."""

    corpus: Corpus
    tokenizer: Any
    budget: Budget
    left_out: int = 0
    _known: dict[tuple[int, Mode], TrainingRow | None] = field(default_factory=dict)
    _ahead: list[Future[Rows]] = field(default_factory=list)

    def seeded(self, seed: int) -> Lessons:
        """The same rows in another order."""
        return replace(self, budget=replace(self.budget, seed=seed))

    def record_ahead(self, processes: int) -> None:
        """Begin to record all rows in other processes."""
        pool = ProcessPoolExecutor(processes, get_context("spawn"))
        numbers = self._chosen()
        parts = [numbers[first : first + _PART] for first in range(0, len(numbers), _PART)]
        bare = Lessons(self.corpus, self.tokenizer, self.budget)
        self._ahead += [pool.submit(_recorded, bare, part) for part in parts]
        pool.shutdown(wait=False)

    def variants(self, tuning: str) -> list[list[TrainingRow]]:
        """Every document in each of the modes. A document that some mode cannot be taught is left out of all."""
        while self._ahead:
            self._known |= self._ahead.pop(0).result()
        modes = (Mode.STRICT,) if tuning == FREE else TrainingMode(tuning).modes
        chosen = self._chosen()
        ways = [{mode: self.row(number, mode) for mode in modes} for number in chosen]
        taught = [number for number, rows in zip(chosen, ways, strict=True) if None not in rows.values()]
        self.left_out = len(chosen) - len(taught)
        if tuning == FREE:
            return [[free_row(self.tokenizer, self.corpus, self.corpus.train[number])] for number in taught]
        return [[row for row in rows.values() if row is not None] for rows in ways if None not in rows.values()]

    def row(self, number: int, mode: Mode) -> TrainingRow | None:
        if (number, mode) not in self._known:
            self._known[number, mode] = self._recorded(number, mode)
        return self._known[number, mode]

    @cached_property
    def _recorder(self) -> Recorder:
        return Recorder(self.tokenizer)

    def _chosen(self) -> list[int]:
        """As many documents as the budget can show once, shuffled; all of them if there are fewer."""
        order = list(range(len(self.corpus.train)))
        Random(self.budget.seed).shuffle(order)
        return order[: self.budget.steps * self.budget.rows * self.budget.length // _SHORT + 1]

    def _recorded(self, number: int, mode: Mode) -> TrainingRow | None:
        """Recorded with a random token limit, or with the highest one if a value is too long for it."""
        document = self.corpus.train[number]
        drawn = Random(f"{number}").choice(LIMITS)
        for limit in dict.fromkeys((drawn, max(LIMITS))):
            try:
                row = self._recorder.row(lesson_of(self.corpus, document, limit, origin=document.title), mode)
            except BadRow:
                continue
            return replace(row, taught=()) if len(row) <= self.budget.length else None
        return None


Rows = dict[tuple[int, Mode], TrainingRow | None]
_here: list[Lessons] = []  # in a process that records: what it compiles for one part serves the next


def _recorded(lessons: Lessons, numbers: Sequence[int]) -> Rows:
    if not _here:
        torch.set_num_threads(1)
        _here.append(lessons)
    return {(number, mode): _here[0].row(number, mode) for number in numbers for mode in Mode}


def tune(base: Path, lessons: Lessons, tuning: str, budget: Budget, work: Work, *, device: str = "cpu") -> Path:
    """The folder of the tuned weights. Reuses those of an earlier run. Raises `OutOfTime`."""
    folder = work.folder / "weights" / lessons.corpus.name / tuning
    if (folder / FILE).is_file():
        return folder
    work.check_time()
    work.report(f"── {lessons.corpus.name}: tuning for {tuning}")
    variants = lessons.variants(tuning)
    work.report(f"   {len(variants)} documents, {lessons.left_out} left out")
    torch.manual_seed(budget.seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).to(device)
    settings = Settings(
        steps=budget.steps, learning_rate=budget.learning_rate, warmup_steps=max(1, budget.steps // 10),
        weight_decay=0.01, precision=usual_precision(device), save_every=0, seed=budget.seed,
    )  # fmt: skip
    batches = PackedBatches(variants, rows=budget.rows, length=budget.length, seed=budget.seed)
    train(model, batches, settings, folder / "training", identity={"work": work.folder.name}, report=work.report)
    shutil.rmtree(folder / "training", ignore_errors=True)
    modes = tuple(Mode) if tuning == FREE else TrainingMode(tuning).modes
    save(model, lessons.tokenizer, TrainingNote(modes, "", "", "", {"string": max(LIMITS)}), folder)
    return folder
