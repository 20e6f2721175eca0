"""The memory of the scheduler: which branch owns which cells and which view row.

    take, open_row    while a step is built; `take_for_drafts` after all else
    roll_back         the step did not run: everything it took is free again
    give_back, cut    nothing that is still to come can see the branch, or the end of it

No other module takes or frees anything. Every cell is free or owned, never both.

A branch is *held* until it has ended and no branch can join it any more. While it is held it keeps what it sees:
`viewers` counts the held branches that see a branch. Its cells are freed when it is not held and has no viewers.
Memory that is still needed is only taken away by preemption: see `scheduler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from pastalang.plan.branches import Release
from pastalang.runtime.scheduler.state import NOTHING, BranchState, Prefix, RequestState, Stage
from pastalang.runtime.scheduler.threads import may_be_waited_for
from pastalang.runtime.scheduler.visibility import values_after
from pastalang.runtime.step import CellId, RowId


class Cells:
    """`capacity` cells."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a memory needs at least one cell, not {capacity}")
        self.capacity = capacity
        self._owned = bytearray(capacity)
        self._freed: list[CellId] = []  # a heap of the cells that were given back
        self._untouched = 0  # this one and all above it were never given

    @property
    def free(self) -> int:
        return self.capacity - self._untouched + len(self._freed)

    @property
    def in_use(self) -> int:
        return self.capacity - self.free

    def take(self, wanted: int) -> tuple[CellId, ...]:
        """Own `wanted` cells, which are free."""
        assert 0 <= wanted <= self.free, f"{wanted} cells are wanted, {self.free} of {self.capacity} are free"
        taken = [heappop(self._freed) for _ in range(min(wanted, len(self._freed)))]
        while len(taken) < wanted:
            taken.append(CellId(self._untouched))
            self._untouched += 1
        for cell in taken:
            self._owned[cell] = True
        return tuple(taken)

    def release(self, cells: Iterable[CellId]) -> None:
        """Give cells back; they may be taken again at once."""
        for cell in cells:
            assert 0 <= cell < self.capacity and self._owned[cell], f"cell {cell} is not owned"
            self._owned[cell] = False
            heappush(self._freed, cell)

    def check_integrity(self, owners: Sequence[Iterable[CellId]]) -> None:
        """Assert that the owned cells are exactly those that `owners` hold, each held once."""
        held = sorted(cell for owner in owners for cell in owner)
        assert len(held) == len(set(held)), "a cell has two owners"
        assert held == [cell for cell in range(self.capacity) if self._owned[cell]], "a cell leaked or was lost"
        assert len(held) == self.in_use, "the count of free cells is wrong"
        assert len(set(self._freed)) == len(self._freed), "a cell was freed twice"
        assert not any(self._owned[cell] for cell in self._freed), "a free cell is owned"


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
