"""From a timeline to its bare graph: which branch forks which, which waits for which, and what each holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pastalang.plan.draw.captions import describe_type
from pastalang.plan.draw.rows import times_of
from pastalang.plan.draw.timeline import Forked, Joined, Lane, Timeline
from pastalang.plan.plan import BranchId


@dataclass(frozen=True, slots=True)
class Edge:
    """A fork, with the gap that it leaves; or a join: `end` waits for `start`."""

    start: BranchId
    end: BranchId
    joins: bool
    label: str


def edges_of(timeline: Timeline) -> Iterator[Edge]:
    """Forks and joins, in the order of the lanes."""
    for lane in timeline.lanes:
        for event in lane.events:
            if isinstance(event, Forked):
                reserve = timeline.plan.branch(event.branch).reserve
                yield Edge(lane.branch.id, event.branch, False, f"+{reserve}" if reserve else "")
            if isinstance(event, Joined):
                for branch in event.branches:
                    yield Edge(branch, lane.branch.id, True, "join")


def summarise(lane: Lane) -> str:
    """The holes of a branch in a few words, and how often it may occur."""
    holes = [f"{describe_type(bar.hole.type)} · {bar.hole.max_tokens}" for bar in lane.bars]
    if len(holes) > 3:
        holes = [*holes[:2], f"{len(holes) - 2} more"]
    return " ".join(part for part in (", ".join(holes) or "text", times_of(lane)) if part)
