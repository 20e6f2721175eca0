"""Where branches stand."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.plan.plan import Each, Plan
from pastalang.plan.structure import walk_plan
from pastalang.plan.token_bounds import max_tokens_of


def documents_of_a_stack_start_at_one_position(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Each) and segment.stacked and plan.branches[segment.branch].reserve != 0:
            yield f"the documents of {segment.name!r} stand one behind another"


def positions_never_go_back(plan: Plan) -> Iterator[str]:
    for branch in plan.branches:
        if branch.reserve < 0:
            yield f"{branch.name!r} reserves {branch.reserve} positions"


def values_in_lock_step_fit_their_gaps(plan: Plan) -> Iterator[str]:
    """They are seen from behind their gaps, so an overrun would put two visible tokens at one position."""
    reserves = {branch.id: branch.reserve for branch in plan.branches}
    for branch in plan.branches:
        if branch.lockstep is not None and max_tokens_of(branch.segments, reserves) > branch.reserve:
            yield f"{branch.name!r} can become longer than its gap of {branch.reserve}"


def a_lock_step_group_counts_its_values(plan: Plan) -> Iterator[str]:
    groups: dict[int, list[int]] = {}
    for branch in plan.branches:
        if branch.lockstep is not None:
            groups.setdefault(branch.lockstep.group, []).append(branch.lockstep.index)
    for group, indexes in groups.items():
        if sorted(indexes) != list(range(len(indexes))):
            yield f"the values of group {group} are numbered {sorted(indexes)}"
