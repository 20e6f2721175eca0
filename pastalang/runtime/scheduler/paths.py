"""The path of a token: the cells of everything that it sees, in the order in which they came to be seen."""

from __future__ import annotations

from pastalang.runtime.scheduler.lockstep import values_before
from pastalang.runtime.scheduler.state import BranchState, Source
from pastalang.runtime.step import CellId


def cells_of_path(source: Source) -> tuple[CellId, ...]:
    """The cells that a token sees, its own last. All of them have been fed.

    The order is the one in which they came to be seen, which layers with a window count by: where the branch began,
    then for each token the branches joined before it, the same token of earlier values in lock-step, and itself.
    """
    path = _Path()
    path.add(source)
    return tuple(path.cells)


class _Path:
    def __init__(self) -> None:
        self.cells: dict[CellId, None] = {}
        self._known: dict[BranchState, int] = {}  # how many tokens of a branch have been added

    def add(self, source: Source) -> None:
        branch, count = source.branch, source.index + 1
        known = self._known.get(branch, 0)
        if count <= known:
            return
        sequence, cells = branch.sequence, branch.memory.cells
        if known == 0 and sequence.source is not None:
            self.add(sequence.source)
        self._known[branch] = count
        for index in range(known, count):
            for one in sequence.joins.get(index, ()):
                if one.last is not None:
                    self.add(one.last)
            self._add_level(branch, index)
            self.cells[cells[index]] = None

    def _add_level(self, branch: BranchState, index: int) -> None:
        if branch.spec.lockstep is not None:
            for value in reversed(values_before(branch)):
                if value is not None and index < len(value.sequence.tokens):
                    self.cells[value.memory.cells[index]] = None
