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
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.request import RequestState


def cells_wanted(branch: BranchState) -> int:
    """The cells to reserve for a branch: the tokens it has to feed already, and its holes at their longest.

    A list counts with its fewest items. A branch that needs more waits for it; no answer depends on the reservation.
    """
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
    """The gate for branches that have no cells yet.

    `serial_request` runs its branches one at a time, because the memory is too small for two of them.
    """

    def __init__(self, memory: Memory) -> None:
        self.serial_request: RequestState | None = None
        self._memory = memory
        self._left = 0

    def unreserved(self, active: Iterable[RequestState]) -> int:
        """The cells that are neither taken nor reserved."""
        reserved = sum(
            max(branch.reserved - branch.fed, 0)
            for request in active
            for branch in request.held
            if branch.is_admitted and not branch.has_ended
        )
        return self._memory.free - reserved

    def begin_step(self, active: Iterable[RequestState]) -> None:
        self._left = self.unreserved(active)

    def may_begin(self, branch: BranchState) -> bool:
        """Admit a branch if its reservation fits; one that does not fit asks again in every step."""
        wanted = cells_wanted(branch)
        if self.serial_request is not None and branch.owner is self.serial_request:
            if any(one.is_admitted and one.stage is Stage.DRAWING for one in self.serial_request.held):
                return False
        elif wanted > self._left:
            return False
        self._left -= wanted
        branch.is_admitted = True
        branch.reserved = wanted
        return True
