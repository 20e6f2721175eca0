"""Memory given back as soon as nothing that is still to come can see it.

A branch is *held* until it has ended and nobody can join it any more. While it is held it keeps what it sees:
`viewers` counts the held branches that see another one. Cells go when nobody holds and nobody views.
"""

from __future__ import annotations

from pastalang.plan.plan import Release
from pastalang.runtime.scheduler.branch import BranchState, Stage
from pastalang.runtime.scheduler.cells import Cells
from pastalang.runtime.scheduler.lockstep import values_behind
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.step_builder import Rows


def release_dead(request: RequestState, cells: Cells, rows: Rows) -> None:
    """Give back what died since the last call. Children first: one that is never fed wants nothing of its parent."""
    for branch in reversed(list(request.held)):
        if _is_needed(branch):
            continue
        if request.reviewer is None:
            let_go(branch, cells, rows)
        elif _is_of_no_more_use(branch):
            _give_back(branch, cells, rows)


def _is_of_no_more_use(branch: BranchState) -> bool:
    """Whether not even a repair needs its own tokens. What it sees stays, because it may be taken up again itself;
    and so does what others join, because those may be taken up again after they have ended."""
    is_joined = bool(branch.request.tokens.joiners[branch.spec.id])
    return not (branch.viewers or branch.keeps_cells or is_joined or _is_seen_in_lockstep(branch))


def _is_seen_in_lockstep(branch: BranchState) -> bool:
    """Whether values behind it may see its tokens. What it sees itself is needed no longer once it has ended."""
    return branch.spec.lockstep is not None and branch.spec.release is Release.NEVER


def release_all(request: RequestState, cells: Cells, rows: Rows) -> None:
    """The request is over, however it ended."""
    for branch in list(request.held):
        let_go(branch, cells, rows)
    request.hungry.clear()
    request.late.clear()
    request.joining.clear()
    request.ready.clear()
    for branch in request.all_branches:
        branch.waiting.clear()
        if branch.source is not None:
            children = branch.source.branch.children
            children[:] = [(index, child) for index, child in children if child is not branch]
        _give_back(branch, cells, rows)
    request.aside.clear()


def end_aside(branch: BranchState, cells: Cells, rows: Rows) -> None:
    """Nobody looks at it any more."""
    branch.stage = Stage.ENDED
    branch.waiting.clear()
    branch.request.drawing -= 1
    del branch.request.aside[branch]
    let_go(branch, cells, rows)


def let_go(branch: BranchState, cells: Cells, rows: Rows) -> None:
    branch.is_held = False
    branch.request.held.pop(branch, None)
    branch.request.hungry.pop(branch, None)
    if branch.source is not None and not branch.fed:
        children = branch.source.branch.children
        children[:] = [(index, child) for index, child in children if child is not branch]
    for seen in branch.view:
        seen.branch.viewers -= 1
        _free(seen.branch, cells, rows)
    _free(branch, cells, rows)


def _free(branch: BranchState, cells: Cells, rows: Rows) -> None:
    if not branch.is_held and not branch.viewers and not _is_seen_in_lockstep(branch):
        _give_back(branch, cells, rows)


def _give_back(branch: BranchState, cells: Cells, rows: Rows) -> None:
    if branch.cells:
        cells.release(branch.cells)
        branch.request.cells_now -= len(branch.cells)
        branch.cells = []
    if branch.row is not None:
        rows.release(branch.row)
        branch.row = None


def _is_needed(branch: BranchState) -> bool:
    if not branch.has_ended or (branch.spec.release is Release.NEVER and not _is_seen_in_lockstep(branch)):
        return True
    if branch.demand > branch.fed or branch.children or _may_be_asked_for(branch):
        return True
    request = branch.request
    for joiner, shared in request.tokens.joiners[branch.spec.id]:
        instances = request.instances(joiner, branch.items[:shared])
        if not instances or not all(one.has_ended for one in instances):
            return True
    return False


def _may_be_asked_for(branch: BranchState) -> bool:
    """Whether values behind it in lock-step may still want tokens of one that has not even a row."""
    if branch.row is not None or not branch.tokens or not _is_seen_in_lockstep(branch):
        return False
    return not all(value is not None and value.has_ended for value in values_behind(branch))
