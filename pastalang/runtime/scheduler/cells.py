"""The cell allocator. Plain Python, no tensors.

Every cell is free or owned, never both. Low numbers are given first, because attention reads every cell up to the
highest one in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from pastalang.runtime.step import CellId


class OutOfCells(Exception):
    """More cells were wanted than are free. Nothing was taken."""

    def __init__(self, *, wanted: int, free: int, capacity: int) -> None:
        super().__init__(f"{wanted} cells were wanted, {free} of {capacity} are free")
        self.wanted = wanted
        self.free = free
        self.capacity = capacity


class Cells:
    """`capacity` cells. `peak` is the largest number that was in use at once."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a memory needs at least one cell, not {capacity}")
        self.capacity = capacity
        self.peak = 0
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
        """Own `wanted` cells, or raise `OutOfCells` and own none."""
        if wanted < 0:
            raise ValueError(f"{wanted} cells cannot be taken")
        if wanted > self.free:
            raise OutOfCells(wanted=wanted, free=self.free, capacity=self.capacity)
        taken = [heappop(self._freed) for _ in range(min(wanted, len(self._freed)))]
        while len(taken) < wanted:
            taken.append(CellId(self._untouched))
            self._untouched += 1
        for cell in taken:
            self._owned[cell] = True
        self.peak = max(self.peak, self.in_use)
        return tuple(taken)

    def release(self, cells: Iterable[CellId]) -> None:
        """Give cells back; they may be taken again at once."""
        for cell in cells:
            assert 0 <= cell < self.capacity and self._owned[cell], f"cell {cell} is not owned"
            self._owned[cell] = False
            heappush(self._freed, cell)

    def is_owned(self, cell: CellId) -> bool:
        return bool(self._owned[cell])

    def check_integrity(self, owners: Sequence[Iterable[CellId]]) -> None:
        """Assert that the owned cells are exactly those that `owners` hold, each held once."""
        held = sorted(cell for owner in owners for cell in owner)
        assert len(held) == len(set(held)), "a cell has two owners"
        assert held == [cell for cell in range(self.capacity) if self._owned[cell]], "a cell leaked or was lost"
        assert len(held) == self.in_use, "the count of free cells is wrong"
        assert len(set(self._freed)) == len(self._freed), "a cell was freed twice"
        assert not any(self._owned[cell] for cell in self._freed), "a free cell is owned"
