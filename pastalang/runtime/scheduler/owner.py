"""Whoever owns branches: a request, or the memory of prompts; and what the one takes over from the other."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.runtime.scheduler.branch import BranchState, Seen, Source
from pastalang.runtime.step import RowId


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a request starts behind: its first `length` tokens are in `view`, the last of them is `source`."""

    length: int = 0
    view: tuple[Seen, ...] = ()
    source: Source | None = None
    reused: int = 0  # how many of them had been fed before


NOTHING = Prefix()


class BranchOwner:
    """Whoever owns branches: a request, or the memory of prompts."""

    def __init__(self) -> None:
        self.hungry: dict[BranchState, None] = {}  # with tokens that somebody needs fed
        self.held: dict[BranchState, None] = {}  # that keep memory, or may come to
        self.late: list[BranchState] = []  # forked behind tokens that had been fed before
        self.idle_rows: list[RowId] = []  # of branches that are gone

    def demand(self, branch: BranchState, upto: int) -> None:
        """Somebody needs the first `upto` tokens of a branch fed, and so all that those see."""
        if upto <= branch.demand:
            return
        waiting = [(branch, upto)]
        while waiting:
            branch, upto = waiting.pop()
            if upto <= branch.demand:
                continue
            for index, joined in branch.joins.items():
                if branch.demand <= index < upto:
                    waiting += [(last.branch, last.index + 1) for one in joined if (last := one.last) is not None]
            if branch.demand == 0 and branch.source is not None:
                waiting.append((branch.source.branch, branch.source.index + 1))
            branch.demand = upto
            if upto > branch.fed:
                branch.request.hungry[branch] = None
