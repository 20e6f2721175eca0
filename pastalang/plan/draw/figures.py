"""The figures above a drawing: passes, speed-up, the busiest pass, memory and positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.plan.branches import Mode, Placement
from pastalang.plan.draw.timeline import Bar, Chosen, Copies, Taken, Timeline
from pastalang.plan.forecast import Forecast

MOST_ITEMS = 16  # of a list, in the run that is simulated
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
    """What the plan is and what its figures are about, in a line; and the figures."""
    figures = (
        Figure(f"{cost.passes.high:,}", "forward passes, at most"),
        Figure(f"{cost.speed_up:,.1f}×", f"fewer than {cost.draws.high:,} in a row"),
        Figure(f"{busiest(timeline):,}", "tokens in the busiest pass"),
        Figure(f"{cost.peak_cells.high:,}", "tokens in memory at the peak"),
        Figure(f"{cost.highest_position.high:,}", "the highest position"),
    )
    return f"{describe_plan(timeline)} · {measured_with(timeline)}", figures


def measured_with(timeline: Timeline) -> str:
    """Memory and positions come from a simulated run, which does not make very long lists as long as they may be."""
    around = [copies for bar in timeline.bars for copies in bar.copies if not copies.per]
    longer = any(copies.maximum > MOST_ITEMS for copies in around)
    return "worst case, excluding inputs" + (f", memory with {MOST_ITEMS} items" if longer else "")


def describe_plan(timeline: Timeline) -> str:
    plan = timeline.plan
    kind = "running text" if plan.output is None else "JSON"
    values, branches = len(timeline.bars), len(timeline.lanes)
    how = MODES[plan.mode] if plan.placement is Placement.GAPS else f"{MODES[plan.mode]}, {plan.placement.value}"
    return f"{kind}, {how}: {_count(values, 'value')} in {_count(branches, 'branch', 'branches')}"


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


Changes: TypeAlias = Counter[int]  # by how much the load changes at a time


@dataclass(frozen=True, slots=True)
class _Work:
    changes: Changes
    arms: tuple[Taken, ...]


def busiest(timeline: Timeline) -> int:
    """Every loop goes round as often as it may; of the arms of a choice, the busier one counts at any time."""
    events = (event for lane in timeline.lanes for event in lane.events if isinstance(event, (Bar, Chosen)))
    return max(_levels(_sum(_work_of(event) for event in events)).values(), default=0)


def _work_of(event: Bar | Chosen) -> _Work:
    changes: Changes = Counter()
    for later, times in _instances(event.copies):
        changes[event.start + later] += times
        changes[event.end + later] -= times
    return _Work(changes, event.arms)


def _sum(works: Iterable[_Work]) -> Changes:
    total: Changes = Counter()
    choices: dict[int, dict[int, list[_Work]]] = {}
    for work in works:
        if not work.arms:
            _add(total, work.changes)
            continue
        outer, *inner = work.arms
        choices.setdefault(outer.choice, {}).setdefault(outer.arm, []).append(_Work(work.changes, tuple(inner)))
    for arms in choices.values():
        _add(total, _highest([_sum(inside) for inside in arms.values()]))
    return total


def _highest(arms: list[Changes]) -> Changes:
    """The highest of several loads, at every time."""
    times = sorted(set().union(*arms))
    levels = [_levels(arm, times) for arm in arms]
    highest: Changes = Counter()
    before = 0
    for time in times:
        level = max(each[time] for each in levels)
        highest[time] = level - before
        before = level
    return highest


def _levels(changes: Changes, times: Iterable[int] | None = None) -> dict[int, int]:
    levels: dict[int, int] = {}
    level = 0
    for time in sorted(changes) if times is None else times:
        level += changes[time]
        levels[time] = level
    return levels


def _add(total: Changes, changes: Changes) -> None:
    for time, change in changes.items():
        total[time] += change


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
