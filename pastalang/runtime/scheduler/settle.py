"""A step that has been run: what was fed is fed, and counted for the requests that it was fed for."""

from __future__ import annotations

from pastalang.runtime.scheduler.feed import Step
from pastalang.runtime.scheduler.request import BranchOwner


def settle(step: Step, *, kept: BranchOwner) -> None:
    """What is fed for `kept`, the owner of kept prompts, is nobody's."""
    for request in dict.fromkeys(branch.request for branch in step.fed if branch.request is not kept):
        request.forward_passes += 1
        request.was_held_back |= step.was_short
    for branch in step.fed:
        count = branch.placed - branch.fed
        owner = branch.request
        if owner is not kept:
            branch.runs.append((branch.fed, count, owner.forward_passes))
            owner.fed_tokens += count
            owner.cells_now += count
            owner.peak_cells = max(owner.peak_cells, owner.cells_now)
        branch.fed = branch.placed
        branch.pieces.clear()
        if branch.fed >= branch.demand:
            owner.hungry.pop(branch, None)
