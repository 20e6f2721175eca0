"""From a timeline to the figures that stand above a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from pastalang.plan.draw.timeline import Bar, Chosen, Copies, Timeline
from pastalang.plan.forecast import Forecast
from pastalang.plan.plan import Mode

MODES: Mapping[Mode, str] = {
    Mode.STRICT: "strict",
    Mode.LOCKSTEP: "in lock-step",
    Mode.SEQUENTIAL: "one value after another",
}


@dataclass(frozen=True, slots=True)
class Figure:
    value: str
    caption: str


def headline_of(timeline: Timeline, cost: Forecast) -> tuple[str, tuple[Figure, ...]]:
    """One sentence on what the plan is, and its figures, all at the limits."""
    figures = (
        Figure(f"{cost.passes.high:,}", "forward passes, at most"),
        Figure(speed_up(cost), f"fewer than {cost.draws.high:,} in a row"),
        Figure(f"{busiest(timeline):,}", "tokens in the busiest pass"),
        Figure(f"{cost.peak_cells.high:,}", "tokens in memory, at most"),
        Figure(f"{cost.highest_position.high:,}", "the highest position, at most"),
    )
    return describe_plan(timeline), figures


def speed_up(cost: Forecast) -> str:
    """Passes of the same plan left to right, for each of its passes, with everything as long as it may be."""
    return f"{cost.draws.high / max(1, cost.passes.high):,.1f}×"


def describe_plan(timeline: Timeline) -> str:
    plan = timeline.plan
    kind = "running text" if plan.output is None else "JSON"
    values, branches = len(timeline.bars), len(timeline.lanes)
    return f"{kind}, {MODES[plan.mode]}: {_count(values, 'value')} in {_count(branches, 'branch', 'branches')}"


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def busiest(timeline: Timeline) -> int:
    """How many tokens are sampled at once, where most are: every loop as often as it may go round."""
    changes: dict[int, int] = {}
    for event in (event for lane in timeline.lanes for event in lane.events):
        if isinstance(event, (Bar, Chosen)):
            for later, times in _instances(event.copies):
                changes[event.start + later] = changes.get(event.start + later, 0) + times
                changes[event.end + later] = changes.get(event.end + later, 0) - times
    return max(accumulate(changes[at] for at in sorted(changes)), default=0)


def _instances(around: tuple[Copies, ...]) -> list[tuple[int, int]]:
    """By how much later each instance begins, with how many begin then (those of a fan-out, all at once)."""
    laters = [(0, 1)]
    for copies in around:
        if copies.per:
            continue
        if copies.last == 0:
            laters = [(later, times * copies.maximum) for later, times in laters]
        else:
            even = max(1, copies.maximum - 1)
            steps = [copies.last * step // even for step in range(copies.maximum)]
            laters = [(later + step, times) for later, times in laters for step in steps]
    return laters
