"""Gives the memory of branches back as soon as nothing that is still to come can see it.

A branch is *held* until it has ended and no branch can join it any more. While it is held it keeps what it sees:
`viewers` counts the held branches that see a branch. Its cells are freed when it is not held and has no viewers.
Memory that is still needed is only taken away by preemption: see `scheduler`.
"""

from __future__ import annotations

from pastalang.plan.branches import Release
from pastalang.runtime.scheduler.lockstep import values_after
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.state import NOTHING, BranchState, Prefix, RequestState, Stage
from pastalang.runtime.scheduler.threads import may_be_waited_for


def release_dead(request: RequestState, memory: Memory) -> None:
    """Give back what nothing can see since the last call. Children first: one that is never fed needs no parent."""
    for branch in reversed(list(request.memory.held)):
        if not _is_needed(branch):
            drop(branch, memory)


def release_all(request: RequestState, memory: Memory, kept: Prefix = NOTHING) -> None:
    """Give back everything but what is kept: the request is over or preempted, or runs its plan once more."""
    owned, pending = request.memory, request.pending
    lengths = dict(kept.view)
    for branch in list(owned.held):
        _hold_no_longer(branch)
    owned.to_feed.clear()
    owned.late.clear()
    pending.joining.clear()
    pending.ready.clear()
    for branch in request.all_branches:
        branch.memory.waiting.clear()
        branch.forget_row()
        memory.cut(branch, lengths.get(branch, 0))
    pending.probes.clear()


def drop(branch: BranchState, memory: Memory) -> None:
    """The branch is held no longer, and no longer holds what it sees."""
    _hold_no_longer(branch)
    for seen in branch.sequence.view:
        _free_if_unseen(seen.branch, memory)
    _free_if_unseen(branch, memory)


def _hold_no_longer(branch: BranchState) -> None:
    memory = branch.memory
    memory.is_held = False
    memory.owner.held.pop(branch, None)
    memory.owner.to_feed.pop(branch, None)
    if not memory.fed:
        branch.forget_row()
    for seen in branch.sequence.view:
        seen.branch.memory.viewers -= 1


def _free_if_unseen(branch: BranchState, memory: Memory) -> None:
    if not branch.memory.is_held and not branch.memory.viewers and not _is_seen_in_lockstep(branch):
        memory.give_back(branch)


def _is_seen_in_lockstep(branch: BranchState) -> bool:
    """Whether later values of its group may see its tokens. It needs what it sees itself only until it has ended."""
    return branch.spec.lockstep is not None and branch.spec.release is Release.NEVER


def _is_needed(branch: BranchState) -> bool:
    if branch.stage is not Stage.ENDED or (branch.spec.release is Release.NEVER and not _is_seen_in_lockstep(branch)):
        return True
    memory = branch.memory
    if memory.demand > memory.fed or memory.children or _may_be_demanded(branch) or may_be_waited_for(branch):
        return True
    request = branch.request
    for joiner, shared in request.tokens.joiners[branch.spec.id]:
        instances = request.live.instances(joiner, branch.items[:shared])
        if not instances or not all(one.has_ended for one in instances):
            return True
    return False


def _may_be_demanded(branch: BranchState) -> bool:
    """Whether later values in lock-step may still need tokens of a branch that does not even have a row."""
    if branch.memory.row is not None or not branch.sequence.tokens or not _is_seen_in_lockstep(branch):
        return False
    return not all(value is not None and value.has_ended for value in values_after(branch))
