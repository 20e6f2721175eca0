"""Room for branches to begin in: the cells that are neither taken nor set aside for branches that are on their way."""

from __future__ import annotations

from collections.abc import Iterable

from pastalang.runtime.memory.cells import Cells
from pastalang.runtime.scheduler.bounds import cells_wanted
from pastalang.runtime.scheduler.branch import BranchState, Stage
from pastalang.runtime.scheduler.request import RequestState


class Room:
    """`alone`: the request that goes through its branches one at a time, because there is no room for two."""

    def __init__(self, cells: Cells) -> None:
        self.alone: RequestState | None = None
        self._cells = cells
        self._left = 0

    def free(self, active: Iterable[RequestState]) -> int:
        aside = sum(
            max(branch.reserved - branch.fed, 0)
            for request in active
            for branch in request.held
            if branch.is_admitted and not branch.has_ended
        )
        return self._cells.free - aside

    def measure(self, active: Iterable[RequestState]) -> None:
        """For the coming step."""
        self._left = self.free(active)

    def may_begin(self, branch: BranchState) -> bool:
        """Whether a branch may take its first cells; one that may not is asked for again in every step."""
        wanted = cells_wanted(branch)
        if self.alone is not None and branch.request is self.alone:
            if any(one.is_admitted and one.stage is Stage.DRAWING for one in self.alone.held):
                return False
        elif wanted > self._left:
            return False
        self._left -= wanted
        branch.is_admitted = True
        branch.reserved = wanted
        return True
