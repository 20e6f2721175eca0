"""Admission: which requests run at the same time, and which of their branches may take their first cells.

Reservations keep the memory from filling up with branches that cannot go on. They do not guarantee that a request
ends, because a list or a thread may get longer than its reservation. What the scheduler does when no branch can be fed
guarantees it (`Scheduler._make_room`, decision 0025):

    1  preempts the newest request, until only the oldest is left
    2  starts the oldest request again, as if it had always been alone
    3  relaxes its reservations
    4  starts it again without reservations, as in a memory that is large enough
    5  starts it again with one branch at a time
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pastalang.plan.branches import Arm, Hole, ItemNumber, Repeat, Segment, Text
from pastalang.plan.structure import measure
from pastalang.runtime.binding.spaced import fed_text
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.prefix_cache import PrefixCache
from pastalang.runtime.scheduler.state import BranchState, Pace, RequestState, Stage


def cells_wanted(branch: BranchState) -> int:
    """The cells to reserve for a branch: the tokens it has to feed already, and its holes at their longest.

    A list counts with its fewest items, and a thread with the tokens that its text expects of it. A branch that needs
    more waits for it; no answer depends on the reservation.
    """
    unfed = max(len(branch.sequence.tokens) - branch.memory.fed, 0)
    return unfed + measure(branch.cursor.ahead, one=partial(_wanted, branch), repeat=_wanted_by_list)


def _wanted(branch: BranchState, segment: Segment | Arm) -> int:
    match segment:
        case Hole(max_tokens=tokens):
            return branch.memory.expected if segment.is_thread else tokens
        case Text() | Arm():
            return len(branch.request.tokens.encoder.text(fed_text(segment)))
        case ItemNumber():
            return 2
        case _:
            return 0


def _wanted_by_list(repeat: Repeat, body: int) -> int:
    return max(1, repeat.minimum) * (2 + body)


class Admission:
    """The gate for branches that have no cells yet. First come, first served: a branch that has to wait keeps its place
    in front of those of newer requests."""

    def __init__(self, memory: Memory, prefix: PrefixCache) -> None:
        self._memory = memory
        self._prefix = prefix
        self._left = 0

    def has_room_for(self, request: RequestState, active: Iterable[RequestState]) -> bool:
        """Whether a request fits next to everything that the active ones have yet to write."""
        held = [branch for one in active for branch in one.memory.held]
        if self._memory.free_rows is not None:
            without = sum(branch.memory.row is None for branch in (*held, *request.branches))
            if without > self._memory.free_rows:
                return False
        claimed = sum(map(_claim, held))
        wanted = sum(map(_claim, request.branches))
        return wanted <= self._memory.free - claimed - self._prefix.unfed

    def begin_step(self, active: Iterable[RequestState]) -> None:
        admitted = (branch for request in active for branch in request.memory.held if branch.memory.is_admitted)
        self._left = self._memory.free - sum(map(_claim, admitted)) - self._prefix.unfed

    @property
    def spare(self) -> int:
        """The free cells that no branch has reserved, once the branches of a step have begun."""
        return self._left

    def may_begin(self, branch: BranchState) -> bool:
        """Whether a branch may take its first cells. One that may not asks again in every step."""
        match branch.request.schedule.pace:
            case Pace.RESERVED:
                branch.memory.reserved = wanted = cells_wanted(branch)
                self._left -= wanted
                return self._left >= 0
            case Pace.RELAXED | Pace.EAGER:
                return True
            case Pace.SERIAL:
                held = branch.request.memory.held
                return not any(one.memory.is_admitted and one.stage is Stage.DRAWING for one in held)


def _claim(branch: BranchState) -> int:
    """The cells that a branch has yet to take, by its reservation."""
    memory = branch.memory
    if branch.stage is Stage.ENDED:
        return max(memory.demand - memory.fed, 0)
    if not memory.reserved:
        memory.reserved = cells_wanted(branch)
    return max(memory.reserved - memory.fed, 0)
