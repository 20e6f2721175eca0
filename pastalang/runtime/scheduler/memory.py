"""The memory of the scheduler: which branch owns which cells and which view row.

    take, open_row    while a step is built; `take_for_drafts` after all else
    roll_back         the step did not run: everything it took is free again
    give_back, cut    nothing that is still to come can see the branch, or the end of it

No other module takes or frees anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from pastalang.runtime.scheduler.cells import Cells
from pastalang.runtime.scheduler.state import BranchState
from pastalang.runtime.step import CellId, RowId


class Memory:
    """`capacity` cells, and as many view rows as are needed, or `rows` of them."""

    def __init__(self, capacity: int, rows: int | None = None) -> None:
        self.cells = Cells(capacity)
        self.rows = rows
        self.clear()

    def clear(self) -> None:
        """Nobody owns anything, as in the beginning."""
        self.cells = Cells(self.cells.capacity)
        self._free_rows: list[RowId] = []
        self._rows_made = 0
        self._cut_rows: dict[BranchState, RowId] = {}  # of branches that are fed no more, and of which a part is seen

    @property
    def capacity(self) -> int:
        return self.cells.capacity

    @property
    def free(self) -> int:
        return self.cells.free

    def take(self, branch: BranchState, count: int) -> tuple[CellId, ...]:
        """Cells for the next `count` tokens of a branch."""
        taken = self.cells.take(count)
        branch.memory.cells += taken
        branch.memory.owner.cells_now += count
        return taken

    def take_for_drafts(self, count: int) -> tuple[CellId, ...]:
        """Cells that belong to a step until it ends. A confirmed draft gives its cell to its branch."""
        return self.cells.take(count)

    def give_back_drafts(self, cells: Iterable[CellId]) -> None:
        self.cells.release(cells)

    @property
    def free_rows(self) -> int | None:
        """How many more rows there are; None without a limit."""
        return None if self.rows is None else self.rows - self._rows_made + len(self._free_rows)

    @property
    def has_row(self) -> bool:
        return self.free_rows != 0

    @property
    def free_row(self) -> RowId:
        """A row that no branch has, until the next one is opened."""
        return self._free_rows[-1] if self._free_rows else RowId(self._rows_made)

    def open_row(self, branch: BranchState) -> RowId:
        """A view row for a branch that has none; a row that was freed is used again."""
        assert branch.memory.row is None, f"`{branch.name}` has a row already"
        assert self.has_row, "no row is left"
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = RowId(self._rows_made)
            self._rows_made += 1
        branch.memory.row = row
        return row

    def give_back(self, branch: BranchState) -> None:
        """Free the cells and the row of a branch."""
        self.cut(branch, 0)

    def cut(self, branch: BranchState, count: int) -> None:
        """Free all cells of a branch but the first `count`. Nothing is fed after it any more.

        Its row is not used again while cells are left: a model may need it to show them to others.
        """
        self._free_cells(branch, since=count)
        if branch.memory.row is not None and branch.memory.cells:
            self._cut_rows[branch] = branch.memory.row
            branch.memory.row = None
            branch.memory.unseen.clear()
        elif not branch.memory.cells:
            self._close_row(branch)
            if (row := self._cut_rows.pop(branch, None)) is not None:
                self._free_rows.append(row)

    def roll_back(self, fed: Iterable[BranchState], rows: set[RowId], branches: Iterable[BranchState]) -> None:
        """Undo a step: free the cells that `fed` took in it, and close the `rows` that it opened.

        `branches` are all that may own one of the rows. A branch that loses its row waits for another one.
        """
        for branch in fed:
            self._free_cells(branch, since=branch.memory.fed)
        for branch in branches:
            if branch.memory.row in rows:
                self._close_row(branch)
                branch.wait_for_row()

    def check_integrity(self, branches: Iterable[BranchState]) -> None:
        """Assert that every cell is free or has exactly one owner among `branches`."""
        self.cells.check_integrity([branch.memory.cells for branch in branches])

    def _free_cells(self, branch: BranchState, *, since: int) -> None:
        memory = branch.memory
        freed = memory.cells[since:]
        if freed:
            self.cells.release(freed)
            memory.owner.cells_now -= len(freed)
            del memory.cells[since:]

    def _close_row(self, branch: BranchState) -> None:
        memory = branch.memory
        if memory.row is not None:
            self._free_rows.append(memory.row)
            memory.row = None
            memory.unseen.clear()
