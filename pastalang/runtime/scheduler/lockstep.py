"""Values in lock-step: a branch comes in, the values before it in its group go out, the nearest first.

Which these are is settled when all of them have begun. A value keeps them when one of them is decoded again: what it
has written stays, and so does what that has seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from pastalang.runtime.scheduler.branch import BranchState


def values_before(branch: BranchState) -> list[BranchState | None]:
    """None: not begun."""
    assert branch.spec.lockstep is not None
    if branch.values_before is not None:
        return list(branch.values_before)
    members = branch.request.tokens.lockstep_groups[branch.spec.lockstep.group]
    before = [member for member in members if member.lockstep and member.lockstep.index < branch.spec.lockstep.index]
    found: list[BranchState | None] = []
    for member in reversed(before):
        instances = branch.request.instances(member.id, branch.items)
        found.append(instances[0] if instances else None)
    begun = [value for value in found if value is not None]
    if len(begun) == len(found):
        branch.values_before = begun
    return found


def settle_values_before(branches: Iterable[BranchState]) -> None:
    """Before any of them is decoded again."""
    for branch in branches:
        if branch.spec.lockstep is not None:
            values_before(branch)


def highest_seen(branch: BranchState) -> int:
    """The highest position that a branch has or sees, what it sees in lock-step included."""
    if branch.spec.lockstep is None:
        return branch.highest
    levels = (
        (value, min(len(value.tokens), len(branch.tokens))) for value in values_before(branch) if value is not None
    )
    return max([branch.highest, *(value.positions[count - 1] for value, count in levels if count)])
