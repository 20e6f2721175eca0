"""Admission: a branch takes its first cells only if there are cells for all that it may write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pastalang.plan.plan import (
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Place,
    Repeat,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.runtime.binding.spaced import fed_text
from pastalang.runtime.scheduler.branch import BranchState, Stage
from pastalang.runtime.scheduler.cells import Cells
from pastalang.runtime.scheduler.request import RequestState


def cells_wanted(branch: BranchState) -> int:
    """What it has to write already, and its holes at their longest. A list counts for as few items as it may have:
    whoever runs out all the same waits, and what is seen does not change."""
    written = len(branch.tokens)
    return max(written - branch.fed, 0) + sum(_wanted(branch, segment) for segment in _rest(branch))


def _rest(branch: BranchState) -> Iterable[Segment]:
    for frame in branch.frames:
        yield from frame.segments[frame.index :]


def _wanted(branch: BranchState, segment: Segment) -> int:
    encode = branch.request.tokens.encoder.text
    match segment:
        case Hole(max_tokens=tokens):
            return tokens
        case Text():
            return len(encode(fed_text(segment)))
        case Choose(arms=arms):
            return max(
                len(encode(fed_text(arm))) + sum(_wanted(branch, inner) for inner in arm.segments) for arm in arms
            )  # fmt: skip
        case Repeat(body=body, minimum=minimum):
            return max(1, minimum) * (2 + sum(_wanted(branch, inner) for inner in body))
        case ItemNumber():
            return 2
        case InputText() | TurnStart() | TurnEnd() | Fork() | Place() | Join() | Each():
            return 0
        case _:
            assert_never(segment)


class Admission:
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
