"""What stands above a drawing: what the plan is, its passes, memory and positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pastalang.plan.branches import Each, Mode, Placement, PlanData, Repeat
from pastalang.plan.draw.timeline import Timeline
from pastalang.plan.run_log import Drew
from pastalang.plan.simulate import Simulated
from pastalang.plan.structure import walk_plan
from pastalang.values.describe import counted

MOST_ITEMS = 16  # of a list, in the run that is simulated
MODES: Mapping[Mode, str] = {
    Mode.STRICT: "strict",
    Mode.LOCKSTEP: "in lock-step",
    Mode.SEQUENTIAL: "one value after another",
}


def describe_plan(timeline: Timeline) -> str:
    plan = timeline.plan
    kind = "running text" if plan.output is None else "JSON"
    how = MODES[plan.mode] if plan.placement is Placement.GAPS else f"{MODES[plan.mode]}, {plan.placement.value}"
    return f"{kind}, {how}: {counted(len(timeline.bars), 'value')} in {counted(len(timeline.lanes), 'branch')}"


def measured_with(plan: PlanData) -> str:
    """What figures come from a simulated run, which does not make very long lists as long as they may be."""
    lists = [segment for _, _, segment in walk_plan(plan) if isinstance(segment, Repeat | Each)]
    longer = any(each.maximum > MOST_ITEMS and (each.over is None or each.over_hole) for each in lists)
    return "worst case, excluding inputs" + (f", memory with {MOST_ITEMS} items" if longer else "")


def busiest(run: Simulated) -> int:
    """The most tokens that are drawn in one pass."""
    drawn = Counter(number for events in run.events.values() for event, number in events if isinstance(event, Drew))
    return max(drawn.values(), default=0)
