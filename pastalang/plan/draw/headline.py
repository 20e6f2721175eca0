"""From a timeline to the figures that stand above a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pastalang.plan.draw.load import busiest
from pastalang.plan.draw.timeline import Timeline
from pastalang.plan.forecast import Forecast
from pastalang.plan.plan import Mode

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
        Figure(speed_up(cost), f"fewer than {cost.draws.high:,} in a row"),
        Figure(f"{busiest(timeline):,}", "tokens in the busiest pass"),
        Figure(f"{cost.peak_cells.high:,}", "tokens in memory at the peak"),
        Figure(f"{cost.highest_position.high:,}", "the highest position"),
    )
    return f"{describe_plan(timeline)} · {measured_with(timeline)}", figures


def measured_with(timeline: Timeline) -> str:
    """Memory and positions come from a simulated run, which does not make very long lists as long as they may be."""
    around = [copies for bar in timeline.bars for copies in bar.copies if not copies.per]
    longer = any(copies.maximum > MOST_ITEMS for copies in around)
    return "everything at its limit, inputs not counted" + (f", memory with {MOST_ITEMS} items" if longer else "")


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
