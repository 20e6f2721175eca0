"""Who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from pastalang.plan.dependencies import dependencies_of
from pastalang.plan.graph import find_cycle
from pastalang.plan.plan import BranchId, Choose, Join, Plan, Repeat, Segment, Text, TurnEnd, TurnStart
from pastalang.plan.structure import walk_plan

_Next: TypeAlias = Segment | None


def nothing_waits_for_what_waits_for_it(plan: Plan) -> Iterator[str]:
    graph = dependencies_of(plan)
    cycle = find_cycle(graph.nodes, graph.edges)
    if cycle is not None:
        around = " -> ".join(plan.branches[piece.branch].name or "the root" for piece in cycle)
        yield f"these wait for one another: {around}"


def only_what_can_end_is_joined(plan: Plan) -> Iterator[str]:
    for branch, _, segment in walk_plan(plan):
        if isinstance(segment, Join):
            above = set(_line(plan, branch.id))
            for joined in segment.branches:
                if joined in above:
                    yield f"{branch.name!r} joins {plan.branches[joined].name!r}, from which it is forked itself"
            if not segment.branches or len(set(segment.branches)) != len(segment.branches):
                yield f"{branch.name!r} has a join of nothing, or of one branch twice"


def something_is_fed_behind_a_join(plan: Plan) -> Iterator[str]:
    for branch in plan.branches:
        yield from _fed(branch.segments, None, branch.name)


def _fed(segments: tuple[Segment, ...], behind: _Next, name: str) -> Iterator[str]:
    """`behind` is what comes next when these segments are done."""
    for index, segment in enumerate(segments):
        following = segments[index + 1] if index + 1 < len(segments) else behind
        match segment:
            case Join():
                if following is not None and not _is_fed(following):
                    yield f"{name!r} decides right behind a join, having read nothing of what it joined"
            case Choose(arms=arms):
                for arm in arms:
                    yield from _fed(arm.segments, following, name)
            case Repeat(body=body):
                yield from _fed(body, segment, name)
            case _:
                pass


def _is_fed(segment: Segment) -> bool:
    return isinstance(segment, Join | TurnEnd | TurnStart) or (isinstance(segment, Text) and bool(segment.text))


def _line(plan: Plan, id: BranchId) -> Iterator[BranchId]:
    """The branch, its parent, and so on to the root."""
    here: BranchId | None = id
    while here is not None:
        yield here
        here = plan.branches[here].parent
