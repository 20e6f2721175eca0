"""Admission: which requests run at the same time, and which of their branches may take their first cells.

Reservations keep the memory from filling up with branches that cannot go on. They do not guarantee that a request
ends, because a list or a thread may get longer than its reservation. What the scheduler does when no branch can be fed
guarantees it (`Scheduler._make_room`, decision 0025):

    1  preempts the newest request, until only the oldest is left
    2  starts the oldest request again, as if it had always been alone
    3  relaxes its reservations
    4  starts it again without reservations, as in a memory that is large enough
    5  starts it again with one branch at a time
    6  reports that it exceeds the memory, with advice on what to shorten
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pastalang.plan.branches import Arm, Hole, InputText, ItemNumber, Mode, Repeat, Segment, Text
from pastalang.plan.forecast import costliest_gaps, rooms_of_threads
from pastalang.plan.structure import measure, walk_plan
from pastalang.runtime.errors import OutOfMemory, TooLong
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.prefix_cache import PrefixCache
from pastalang.runtime.scheduler.state import BranchState, Pace, RequestState, Stage
from pastalang.values.describe import counted
from pastalang.values.lengths import closed_texts
from pastalang.values.text import text_of, value_at


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
            return len(branch.request.tokens.encoder.text(segment.fed_text))
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


MOST_NAMED = 3
_LITTLE = 20  # an input of less than this part of the longest one is not worth shortening
_MANY_OPTIONS = 256


def check_length(branch: BranchState, max_position: int) -> None:
    """Raises `TooLong` before a token beyond the model's last position is fed."""
    if branch.sequence.position - 1 > max_position:
        raise too_long(branch, max_position)


def too_long(branch: BranchState, max_position: int) -> TooLong:
    request = branch.request
    headline = (
        f"`{branch.name or 'the prompt'}` reaches position {branch.sequence.position - 1:,}, "
        f"and the model's last one is {max_position:,}"
    )
    options = _options(request)
    inputs = "" if options else _inputs(request)
    parts = (_threads(request), options, inputs, _windows(request, inputs), _gaps(request), _one_by_one(request))
    found = ", or ".join(part for part in parts if part)
    return TooLong(f"{headline}: {found}" if found else headline, plan=request.plan)


def _threads(request: RequestState) -> str:
    """The positions that the threads of the model's own text may reserve."""
    rooms = rooms_of_threads(request.plan)
    return f"lower the `max` of the text, whose threads may reserve {rooms:,} positions" if rooms else ""


def _options(request: RequestState) -> str:
    """The longest choice, if it is so long that its options fill a prompt in which they stand."""
    types = dict(request.plan.types)
    holes = (segment for _, _, segment in walk_plan(request.plan) if isinstance(segment, Hole))
    counts = {hole.field: len(closed_texts(hole.type, types)) for hole in holes}
    name = max(counts, key=lambda one: counts[one], default="")
    return f"write fewer options for `{name}` ({counts[name]:,})" if counts and counts[name] >= _MANY_OPTIONS else ""


def _one_by_one(request: RequestState) -> str:
    is_parallel = request.plan.mode is not Mode.SEQUENTIAL and len(request.plan.branches) > 1
    return 'write one value after another, with `mode="sequential"`, which reserves nothing' if is_parallel else ""


def _inputs(request: RequestState) -> str:
    """The longest inputs, with their lengths in tokens, without those that are short next to the longest."""
    lengths: dict[str, int] = {}
    for one in request.plan.branches:
        for segment in one.segments:
            if isinstance(segment, InputText) and segment.path[0] in request.values:
                name = segment.path[0]
                lengths[name] = lengths.get(name, 0) + _tokens(request, segment.path)
    longest = sorted(lengths, key=lambda name: -lengths[name])[:MOST_NAMED]
    named = ", ".join(
        f"`{name}` ({counted(lengths[name], 'token')})"
        for name in longest
        if lengths[name] * _LITTLE > lengths[longest[0]]
    )
    return f"shorten {named}" if named else ""


def _windows(request: RequestState, inputs: str) -> str:
    is_of_one_text = request.plan.output is not None and not any(one.each for one in request.plan.inputs)
    return "read it in parts, with `window=128` of `extract` (`--window`)" if inputs and is_of_one_text else ""


def _tokens(request: RequestState, path: tuple[str, ...]) -> int:
    """Stacked documents share positions, so the longest one counts."""
    name, *rest = path
    value = request.values[name]
    is_stack = any(one.name == name and one.each for one in request.plan.inputs)
    texts = [text_of(value_at(one, tuple(rest))) for one in (value if is_stack else [value])]
    return max((len(request.tokens.encoder.text(text)) for text in texts), default=0)


def _gaps(request: RequestState) -> str:
    """The fields that reserve the most positions."""
    named = ", ".join(f"`{gap.name}` ({gap.positions:,})" for gap in costliest_gaps(request.plan)[:MOST_NAMED])
    return f"lower the limits of the fields with the largest gaps: {named}" if named else ""


def too_small(request: RequestState, memory: Memory) -> OutOfMemory:
    branch = min(request.memory.to_feed, key=lambda branch: branch.number)
    if not memory.has_row:
        return OutOfMemory(
            f"`{branch.name or 'the prompt'}` wants a sequence of its own, and all {memory.rows} are in use, even when "
            "it runs one branch at a time: let fewer branches wait for one another",
            plan=request.plan,
        )
    wanted = branch.memory.demand - branch.memory.fed
    return OutOfMemory(
        f"`{branch.name or 'the prompt'}` wants {counted(wanted, 'cell')}, {memory.free} of {memory.capacity} are "
        "free, even when it runs one branch at a time; load the model with more `cells`, or pass `--cells`",
        plan=request.plan,
    )
