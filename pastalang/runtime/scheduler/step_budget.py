"""How many tokens a step may hold: as many as want to, or fewer for a while after the device ran out of memory."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.runtime.scheduler.cells import Cells
from pastalang.runtime.step import CellId

_STEPS = 64  # that went well before twice as many tokens are tried again


class StepBudget:
    """`most` is None while nothing has ever gone wrong."""

    def __init__(self, capacity: int) -> None:
        self.most: int | None = None
        self._capacity = capacity
        self._went_well = 0

    def narrow(self, tokens: int) -> bool:
        """A step of so many tokens was too large. False where there is no smaller one."""
        self.most = max(tokens // 2, 1)
        self._went_well = 0
        return tokens > 1

    def went_well(self) -> None:
        if self.most is None:
            return
        self._went_well += 1
        if self._went_well == _STEPS:
            self._went_well = 0
            self.most = None if 2 * self.most >= self._capacity else 2 * self.most

    def of(self, cells: Cells) -> StepCells:
        """The cells as a step sees them."""
        return StepCells(cells, self.most)


@dataclass(slots=True)
class StepCells:
    """The free cells, of which one step may take `left`; None: all."""

    cells: Cells
    left: int | None

    @property
    def free(self) -> int:
        return self.cells.free if self.left is None else min(self.cells.free, self.left)

    def take(self, wanted: int) -> tuple[CellId, ...]:
        assert wanted <= self.free, "more cells than the step may take"
        taken = self.cells.take(wanted)
        if self.left is not None:
            self.left -= wanted
        return taken
