"""Which branch is forked where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pastalang.plan.plan import ROOT, BranchId, Each, Fork, Place, Plan
from pastalang.plan.structure import walk, walk_plan


def every_branch_is_forked_once_by_its_parent(plan: Plan) -> Iterator[str]:
    for index, branch in enumerate(plan.branches):
        if branch.id != index:
            yield f"branch {branch.id} stands at index {index}"
    forks: Counter[BranchId] = Counter()
    for branch, _, segment in walk_plan(plan):
        if isinstance(segment, Fork | Each):
            forks[segment.branch] += 1
            if plan.branches[segment.branch].parent != branch.id:
                yield f"{_name(plan, segment.branch)} is forked by {_name(plan, branch.id)}, which is not its parent"
    for branch in plan.branches:
        expected = 0 if branch.id == ROOT else 1
        if forks[branch.id] != expected:
            yield f"{_name(plan, branch.id)} is forked {forks[branch.id]} times"


def every_branch_hangs_on_the_root(plan: Plan) -> Iterator[str]:
    hangs = {ROOT}
    for branch in plan.branches:
        path = []
        id: BranchId | None = branch.id
        while id is not None and id not in hangs and id not in path:
            path.append(id)
            id = plan.branches[id].parent
        if id is None or id not in hangs:
            yield f"{_name(plan, branch.id)} cannot be reached"
        else:
            hangs.update(path)


def a_text_is_placed_behind_its_fork(plan: Plan) -> Iterator[str]:
    for branch in plan.branches:
        forked: set[BranchId] = set()
        placed: set[BranchId] = set()
        for _, segment in walk(branch.segments):
            if isinstance(segment, Fork):
                forked.add(segment.branch)
            if isinstance(segment, Place):
                if segment.branch not in forked or segment.branch in placed:
                    yield f"{_name(plan, segment.branch)} is placed before its fork, or twice"
                placed.add(segment.branch)


def _name(plan: Plan, id: BranchId) -> str:
    return f"branch {id} ({plan.branches[id].name or 'the root'})"
