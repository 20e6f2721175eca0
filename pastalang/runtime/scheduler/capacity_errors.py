"""Errors of a request that exceeds the model's positions or the memory, with advice on what to shorten."""

from __future__ import annotations

from pastalang.plan.branches import Hole, InputText, Mode
from pastalang.plan.forecast import costliest_gaps, rooms_of_threads
from pastalang.plan.structure import walk_plan
from pastalang.runtime.errors import OutOfMemory, TooLong
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.values.describe import counted
from pastalang.values.lengths import closed_texts
from pastalang.values.text import text_of, value_at

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
