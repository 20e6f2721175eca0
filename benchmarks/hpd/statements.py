"""Statements that the figures of one data set confirm or do not confirm, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.hpd.certainty import Difference, difference, mean_difference
from benchmarks.hpd.experiment import BASE, SHORT, STACKS
from benchmarks.hpd.measure import Way
from benchmarks.hpd.tables import Measured, best_rate
from pastalang.plan.branches import Mode
from pastalang.training.settings import TrainingMode

PARALLEL = (TrainingMode.STRICT, TrainingMode.LOCKSTEP)
SINGLE = (*PARALLEL, TrainingMode.SEQUENTIAL)
Found = dict[str, Any] | None
Pair = tuple[Found, Found]


def statements(one: Measured) -> list[str]:
    makers = (_kept, _kept_together, _free, _passes, _rival, _tuned, _mixture, _short, _stacks)
    found = (list(make(one)) for make in makers)
    return [f"- {lines[0]} {'; '.join(lines[1:])}." for lines in found if len(lines) > 1]


def _kept(one: Measured) -> Iterator[str]:
    yield "F1 against sequential, each tuned for itself:"
    yield from _against(*(one.quality(tuning, Way(tuning.modes[0])) for tuning in SINGLE))


def _kept_together(one: Measured) -> Iterator[str]:
    yield "F1 against sequential, with one set of weights for all modes:"
    yield from _against(*(one.quality(TrainingMode.MIXTURE, Way(tuning.modes[0])) for tuning in SINGLE))


def _against(strict: Found, lockstep: Found, sequential: Found) -> Iterator[str]:
    for name, found in zip(PARALLEL, (strict, lockstep), strict=True):
        if found and sequential:
            gap = difference(found, sequential)
            unlikely = "" if gap.low >= 0 else f" (a loss of more than {-gap.low:.1f} is unlikely)"
            yield f"{name} {gap}, {gap.verdict}{unlikely}"
    if strict and lockstep:
        gap = difference(lockstep, strict)
        yield f"{TrainingMode.LOCKSTEP} against {TrainingMode.STRICT} {gap}, {gap.verdict}"


def _free(one: Measured) -> Iterator[str]:
    yield "Against a copy that is tuned to write the whole JSON, each tuned for itself:"
    for tuning, gap in _gaps(SINGLE, lambda tuning: (one.quality(tuning, Way(tuning.modes[0])), one.free)):
        found = one.quality(tuning, Way(tuning.modes[0]))
        assert found and one.free
        fewer, faster = one.free["passes"] / found["passes"], one.free["seconds"] / found["seconds"]
        yield f"{tuning} {gap}, {gap.verdict}, {fewer:.1f} times fewer passes and {faster:.1f} times as fast"


def means(sets: Sequence[Measured]) -> list[str]:
    """The mean over all data sets of what the modes differ by."""
    found = []
    for name, shared in (("each tuned for itself", None), ("one set of weights for all modes", TrainingMode.MIXTURE)):
        for one, other in ((SINGLE[0], SINGLE[2]), (SINGLE[1], SINGLE[0])):
            sides = [[each.quality(shared or tuning, Way(tuning.modes[0])) for tuning in (one, other)] for each in sets]
            pairs = [(left, right) for left, right in sides if left and right]
            if len(pairs) > 1:
                gap = mean_difference(pairs)
                found.append(f"- {one} against {other}, {name}, of {len(pairs)} sets: {gap}, {gap.verdict}.")
    return found


def _passes(one: Measured) -> Iterator[str]:
    yield "Against sequential, each tuned for itself:"
    base = one.quality(TrainingMode.SEQUENTIAL, Way(Mode.SEQUENTIAL))
    for tuning in PARALLEL:
        found = one.quality(tuning, Way(tuning.modes[0]))
        if found and base:
            fewer, faster = base["passes"] / max(1e-9, found["passes"]), base["seconds"] / found["seconds"]
            yield f"{tuning} takes {fewer:.1f} times fewer passes and is {faster:.1f} times as fast"


def _rival(one: Measured) -> Iterator[str]:
    yield "Against `generate`, a document at a time and each side at its best:"
    if one.speed is not None:
        seconds = one.speed["seconds"]
        for mode in Mode:
            alone = seconds["generate/1"] / seconds[f"{mode.value}/1"]
            best = best_rate(one.speed, mode.value) / best_rate(one.speed, "generate")
            yield f"{mode.value} is {alone:.1f} and {best:.1f} times as fast"


def _tuned(one: Measured) -> Iterator[str]:
    yield "Tuning changes F1:"

    def pair(tuning: TrainingMode) -> Pair:
        way = Way(tuning.modes[0])
        return one.quality(tuning, way), one.quality(BASE, way)

    yield from _told(pair)


def _mixture(one: Measured) -> Iterator[str]:
    yield "One set of weights for all modes, against one for each:"

    def pair(tuning: TrainingMode) -> Pair:
        way = Way(tuning.modes[0])
        return one.quality(TrainingMode.MIXTURE, way), one.quality(tuning, way)

    yield from _told(pair)


def _short(one: Measured) -> Iterator[str]:
    yield f"{SHORT} tokens per value instead of {Way(Mode.STRICT).limit}:"

    def pair(tuning: TrainingMode) -> Pair:
        mode = tuning.modes[0]
        return one.first(tuning, Way(mode, limit=SHORT)), one.first(tuning, Way(mode))

    yield from _told(pair)


def _stacks(one: Measured) -> Iterator[str]:
    yield f"{STACKS[-1]} documents in one sequence, against one:"
    for tuning in SINGLE:
        many, single = one.stack(tuning, STACKS[-1]), one.stack(tuning, STACKS[0])
        if many and single:
            gap, times = difference(many, single), single["seconds"] / many["seconds"]
            yield f"{tuning} is {times:.1f} times as fast, F1 {gap}, {gap.verdict}"


def _told(pair: Callable[[TrainingMode], Pair]) -> Iterator[str]:
    return (f"{tuning} {gap}, {gap.verdict}" for tuning, gap in _gaps(SINGLE, pair))


def _gaps(
    tunings: tuple[TrainingMode, ...], pair: Callable[[TrainingMode], Pair]
) -> Iterator[tuple[TrainingMode, Difference]]:  # fmt: skip
    for tuning in tunings:
        one, other = pair(tuning)
        if one and other:
            yield tuning, difference(one, other)
