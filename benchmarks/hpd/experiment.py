"""All parts of the experiment, in order. Each gives figures under a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks.hpd.documents import Corpus, Document
from benchmarks.hpd.measure import Bench, Way, measure, measure_free
from benchmarks.hpd.rival import FREE
from benchmarks.hpd.speed import compare_speed
from benchmarks.hpd.tuning import Budget, Lessons, tune
from benchmarks.hpd.work import OutOfTime, Work
from pastalang.plan.branches import Mode
from pastalang.training.settings import TrainingMode

BASE = "base"
STACKS = (1, 2, 4, 6)
SHORT = 10  # the lower limit of tokens per value

Figures = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Scope:
    """How many held-out documents are decoded: for quality, for stacks, and against `generate`."""

    documents: int
    stacked: int
    timed: int
    rounds: int
    tunings: tuple[TrainingMode, ...]


@dataclass
class Experiment:
    """`repeated`: with another seed than the first. Only the copies are tuned and measured again."""

    base: Path
    lessons: Lessons
    bench: Bench
    budget: Budget
    scope: Scope
    work: Work
    repeated: bool = False

    @property
    def corpus(self) -> Corpus:
        return self.lessons.corpus

    def run_quality(self) -> None:
        """The parts that are made for every seed, and the comparison of speed."""
        self._run(dict(self._quality_parts()))

    def figures(self) -> Figures:
        """The figures by the names of their parts. If the time runs out, those that exist; none if it is repeated."""
        parts = dict(self._quality_parts())
        if not self.repeated:
            parts |= dict(self._further_parts())
        self._run(parts)
        known = {name: self.work.known(name) for name in parts}
        found = {name: made for name, made in known.items() if made is not None}
        return {} if self.repeated and len(found) < len(parts) else found

    @cached_property
    def held_out(self) -> tuple[Document, ...]:
        return self.corpus.held_out[: self.scope.documents]

    def _run(self, parts: dict[str, Callable[[], dict[str, Any]]]) -> None:
        try:
            for name, make in parts.items():
                self.work.part(name, make)
        except OutOfTime:
            self.work.report("the minutes are over; the next run continues here")

    def _quality_parts(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        if not self.repeated:
            for mode in Mode:
                yield self._quality(BASE, Way(mode))
        for tuning in self.scope.tunings:
            for mode in tuning.modes:
                yield self._quality(tuning, Way(mode))
        if self.scope.tunings:
            yield free_name(self.corpus.name), self._free
            if not self.repeated:
                yield speed_name(self.corpus.name), self._speed

    def _further_parts(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        for tuning in (one for one in self.scope.tunings if one is not TrainingMode.MIXTURE):
            yield self._quality(tuning, Way(tuning.modes[0], limit=SHORT))
            for size in STACKS:
                way = Way(tuning.modes[0], stack=size, batch=1)
                yield self._quality(tuning, way, "stack", self.held_out[: self.scope.stacked])

    def _quality(
        self, weights: str, way: Way, kind: str = "quality", documents: Sequence[Document] | None = None
    ) -> tuple[str, Callable[[], dict[str, Any]]]:
        name = part_name(self.corpus.name, kind, weights, way)
        return name, partial(self._measure, weights, self.held_out if documents is None else documents, way)

    def _measure(self, weights: str, documents: Sequence[Document], way: Way) -> dict[str, Any]:
        engine = self.bench.engine(self._folder(weights))
        measure(engine, self.corpus, documents[:1], way)  # guides and the like are made once, and not timed
        return measure(engine, self.corpus, documents, way)

    def _free(self) -> dict[str, Any]:
        return measure_free(self._folder(FREE), self.corpus, self.held_out, device=self.bench.device)

    def _speed(self) -> dict[str, Any]:
        best, timed = self._folder(self.scope.tunings[-1]), self.held_out[: self.scope.timed]
        return compare_speed(self.bench, best, self.corpus, timed, rounds=self.scope.rounds)

    def _folder(self, weights: str) -> Path:
        if weights == BASE:
            return self.base
        return tune(self.base, self.lessons, weights, self.budget, self.work, device=self.bench.device)


def speed_name(corpus: str) -> str:
    return f"{corpus}/speed"


def free_name(corpus: str) -> str:
    return f"{corpus}/{FREE}"


def part_name(corpus: str, kind: str, weights: str, way: Way) -> str:
    return f"{corpus}/{kind}/{weights}-{way.mode.value}-{way.limit}-{way.stack}-{way.batch}"
