"""The tables of the report for one data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.hpd.certainty import interval
from benchmarks.hpd.documents import ABSENT, Corpus
from benchmarks.hpd.experiment import BASE, SHORT, STACKS, Figures, free_name, part_name, speed_name
from benchmarks.hpd.measure import Way
from pastalang.plan.branches import Mode
from pastalang.training.settings import TrainingMode

MISSING = "–"
_SINGLE = tuple(tuning for tuning in TrainingMode if tuning is not TrainingMode.MIXTURE)


@dataclass(frozen=True, slots=True)
class Measured:
    """One data set with those of its figures that exist. `repeated`: figures of further seeds."""

    corpus: Corpus
    figures: Figures
    repeated: Sequence[Figures] = ()

    def first(self, weights: str, way: Way) -> dict[str, Any] | None:
        """With the first seed."""
        return self.figures.get(part_name(self.corpus.name, "quality", weights, way))

    def quality(self, weights: str, way: Way) -> dict[str, Any] | None:
        """The mean of all seeds that measured it."""
        return self._of_seeds(part_name(self.corpus.name, "quality", weights, way))

    @property
    def free(self) -> dict[str, Any] | None:
        """Of the copy that writes the whole JSON."""
        return self._of_seeds(free_name(self.corpus.name))

    def stack(self, tuning: TrainingMode, size: int) -> dict[str, Any] | None:
        way = Way(tuning.modes[0], stack=size, batch=1)
        return self.figures.get(part_name(self.corpus.name, "stack", tuning, way))

    @property
    def speed(self) -> dict[str, Any] | None:
        return self.figures.get(speed_name(self.corpus.name))

    def _of_seeds(self, name: str) -> dict[str, Any] | None:
        return _mean([found[name] for found in (self.figures, *self.repeated) if name in found])


def _mean(runs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    if len(runs) < 2:
        return runs[0] if runs else None
    numbers = [name for name, value in runs[0].items() if isinstance(value, int | float)]
    means = {name: fmean(run[name] for run in runs) for name in numbers}
    return {**runs[0], **means, "per_document": [run["per_document"] for run in runs]}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table. The first column is text, the others are figures."""
    return [
        f"| {' | '.join(head)} |",
        f"|---|{'---:|' * (len(head) - 1)}",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]


def data_table(sets: Sequence[Measured]) -> list[str]:
    head = ("data set", "training", "held out", "asked each", "stated each", "said to be absent", "product known")
    return table(head, (_data_row(one.corpus) for one in sets))


def _data_row(corpus: Corpus) -> tuple[object, ...]:
    held = corpus.held_out
    asked = sum(len(corpus.asked[document.category]) for document in held) / max(1, len(held))
    values = [accepted for document in held for accepted in document.accepted.values()]
    absent = sum(accepted[0] == ABSENT for accepted in values)
    stated = (len(values) - absent) / max(1, len(held))
    return corpus.name, len(corpus.train), len(held), f"{asked:.1f}", f"{stated:.1f}", absent, corpus.known_products


def quality_table(one: Measured) -> list[str]:
    head = (
        "weights, mode", "limit", "F1", "F1 strict", "invented %", "unreadable %", "cut %", "passes", "of `generate`",
        "docs/s",
    )  # fmt: skip
    rows = [_quality_row(f"{BASE}, {mode.value}", one.quality(BASE, Way(mode)), Way(mode).limit) for mode in Mode]
    for limit in (Way(Mode.STRICT).limit, SHORT):
        for tuning in _SINGLE:
            found = one.quality(tuning, Way(tuning.modes[0], limit=limit))
            rows.append(_quality_row(f"tuned for one, {tuning}", found, limit))
    for mode in Mode:
        found = one.quality(TrainingMode.MIXTURE, Way(mode))
        rows.append(_quality_row(f"{TrainingMode.MIXTURE}, {mode.value}", found, Way(mode).limit))
    rows.append(_quality_row("tuned for one, free JSON", one.free, "none"))
    return table(head, filter(None, rows))


def _quality_row(name: str, found: dict[str, Any] | None, limit: object) -> tuple[object, ...] | None:
    if found is None:
        return None
    low, high = interval(found)
    return (
        name, limit, f"{found['f1']:.1f} ({low:.1f} … {high:.1f})", f"{found['strict_f1']:.1f}",
        f"{found['hallucinated']:.1f}", f"{found['unreadable']:.1f}", f"{found['truncated']:.1f}",
        f"{found['passes']:.1f}", f"{found['passes'] / found['written']:.2f}",
        f"{found['documents'] / found['seconds']:.2f}",
    )  # fmt: skip


def stack_table(one: Measured) -> list[str]:
    head = ("documents in one sequence", *(f"{t} {what}" for t in _SINGLE for what in ("F1", "passes", "docs/s")))
    return table(head, ((size, *_stack_cells(one, size)) for size in STACKS))


def _stack_cells(one: Measured, size: int) -> list[str]:
    cells = []
    for tuning in _SINGLE:
        found = one.stack(tuning, size)
        if found is None:
            cells += [MISSING] * 3
        else:
            speed = found["documents"] / found["seconds"]
            cells += [f"{found['f1']:.1f}", f"{found['passes']:.1f}", f"{speed:.2f}"]
    return cells


def speed_table(speed: dict[str, Any]) -> list[str]:
    sizes = sorted({int(side.split("/")[1]) for side in speed["seconds"]})
    sides = (*(mode.value for mode in Mode), "generate")
    head = ("side", *(f"{size} at once" for size in sizes), "at its best", "generate takes")
    rows = []
    for side in sides:
        rates = [speed["documents"] / speed["seconds"][f"{side}/{size}"] for size in sizes]
        times = best_rate(speed, side) / best_rate(speed, "generate")
        rows.append((side, *(f"{rate:.2f}" for rate in rates), f"{max(rates):.2f}", f"{times:.1f}× as long"))
    return table(head, rows)


def best_rate(speed: dict[str, Any], side: str) -> float:
    """Documents per second with the best batch size."""
    return float(
        max(speed["documents"] / taken for name, taken in speed["seconds"].items() if name.startswith(f"{side}/"))
    )
