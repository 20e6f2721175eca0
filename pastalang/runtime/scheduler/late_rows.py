"""View rows of branches that begin late, and the rollback of a step that did not run."""

from __future__ import annotations

from collections.abc import Iterable

from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.cells import Cells
from pastalang.runtime.scheduler.request import BranchOwner
from pastalang.runtime.scheduler.step_builder import Rows, Step, cells_of_path
from pastalang.runtime.step import Edit, Empty, Follow, RowId, Show


def open_late_rows(owner: BranchOwner, rows: Rows) -> list[Edit]:
    """Rows for those that go on from a token fed in an earlier step. Whom they have joined since comes behind that."""
    edits: list[Edit] = []
    for branch in owner.late:
        if branch.row is None and branch.is_held:
            assert branch.source is not None
            before = branch.source.branch
            branch.row = rows.take()
            edits.append(Empty(branch.row))
            if before.fed == branch.source.index + 1 and before.row is not None:
                edits.append(Follow(branch.row, before.row))
            else:
                edits.append(Show(branch.row, cells_of_path(branch.source)))
    owner.late.clear()
    return edits


def rollback_step(step: Step, branches: Iterable[BranchState], cells: Cells, rows: Rows) -> None:
    """`branches`: all that may have got a row in this step. What the model has noted of it is noted anew."""
    for branch in step.fed:
        cells.release(branch.cells[branch.fed :])
        del branch.cells[branch.fed :]
        branch.placed = branch.fed
        branch.pieces.clear()
    edited = {edit.row for edit in step.batch.edits}
    captured = {capture.row for capture in step.batch.captures}
    close_rows(edited | captured, branches, rows)


def close_rows(made: set[RowId], branches: Iterable[BranchState], rows: Rows) -> None:
    """The rows that were made for a step go; who had one waits for another."""
    for branch in branches:
        if branch.row is None or branch.row not in made:
            continue
        rows.release(branch.row)
        branch.row = None
        source = branch.source
        if source is None:
            continue
        if source.index < source.branch.fed:
            branch.request.late.append(branch)
        elif (source.index, branch) not in source.branch.children:
            source.branch.children.append((source.index, branch))
