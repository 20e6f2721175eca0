"""Values in lock-step: which earlier values of its group a value sees, token by token.

The values that a value sees are fixed once all of them have begun.
"""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.runtime.scheduler.state import BranchState


def values_before(branch: BranchState) -> list[BranchState | None]:
    """The earlier values of the branch's group, the nearest first. None stands for a value that has not begun."""
    assert branch.spec.lockstep is not None
    sequence = branch.sequence
    if sequence.values_before is not None:
        return list(sequence.values_before)
    found = [value for index, value in _values(branch) if index < branch.spec.lockstep.index][::-1]
    begun = [value for value in found if value is not None]
    if len(begun) == len(found):
        sequence.values_before = begun
    return found


def values_after(branch: BranchState) -> list[BranchState | None]:
    """The later values of the branch's group. None stands for a value that has not begun."""
    assert branch.spec.lockstep is not None
    return [value for index, value in _values(branch) if index > branch.spec.lockstep.index]


def _values(branch: BranchState) -> Iterator[tuple[int, BranchState | None]]:
    """All values of the branch's group, each with its index."""
    assert branch.spec.lockstep is not None
    for member in branch.request.tokens.lockstep_groups[branch.spec.lockstep.group]:
        assert member.lockstep is not None
        instances = branch.request.live.instances(member.id, branch.items)
        yield member.lockstep.index, instances[0] if instances else None


def highest_seen(branch: BranchState) -> int:
    """The highest position that a branch has or sees, including the tokens it sees in lock-step."""
    sequence = branch.sequence
    if branch.spec.lockstep is None:
        return sequence.highest
    values = (value.sequence for value in values_before(branch) if value is not None)
    levels = ((value, min(len(value.tokens), len(sequence.tokens))) for value in values)
    return max([sequence.highest, *(value.positions[count - 1] for value, count in levels if count)])
