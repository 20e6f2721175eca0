"""Values in lock-step: a branch comes in, the values before or behind it in its group go out, the nearest first.

Which these are is settled when all of them have begun. A value keeps them when one of them is decoded again: what it
has written stays, and so does what that has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pastalang.runtime.scheduler.branch import BranchState


def values_before(branch: BranchState) -> list[BranchState | None]:
    """None: not begun."""
    assert branch.spec.lockstep is not None
    if branch.values_before is not None:
        return list(branch.values_before)
    found = [value for index, value in _values(branch) if index < branch.spec.lockstep.index][::-1]
    begun = [value for value in found if value is not None]
    if len(begun) == len(found):
        branch.values_before = begun
    return found


def values_behind(branch: BranchState) -> list[BranchState | None]:
    """The nearest first. None: not begun."""
    assert branch.spec.lockstep is not None
    return [value for index, value in _values(branch) if index > branch.spec.lockstep.index]


def _values(branch: BranchState) -> Iterator[tuple[int, BranchState | None]]:
    """All of its group, each with its place in it."""
    assert branch.spec.lockstep is not None
    for member in branch.request.tokens.lockstep_groups[branch.spec.lockstep.group]:
        assert member.lockstep is not None
        instances = branch.request.instances(member.id, branch.items)
        yield member.lockstep.index, instances[0] if instances else None


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
