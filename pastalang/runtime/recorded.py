"""A request that is over comes in, the trace of what its branches were fed, drew and joined goes out."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.trace import ROOT_LANE, Drew, Fed, JoinedLanes, Lane, Trace


def trace_of(request: RequestState) -> Trace:
    branches = request.branches
    return Trace(
        passes=request.last_draw,
        lanes=tuple(_lane(branch) for branch in branches),
        fed=tuple(sorted((*_prompt(request), *(fed for one in branches for fed in _fed(one))), key=_pass_of)),
        drawn=tuple(sorted((drew for branch in branches for drew in _drawn(branch)), key=_pass_of)),
        joins=tuple(sorted((join for branch in branches for join in _joins(branch)), key=_pass_of)),
    )


def _pass_of(one: Fed | Drew | JoinedLanes) -> int:
    return one.forward_pass


def _lane(branch: BranchState) -> Lane:
    passes = [*(run[2] for run in branch.runs[:1]), *(drawn.forward_pass for drawn in branch.drawn[:1])]
    sees: dict[int, int] = {}
    for seen in branch.view:
        lane = max(seen.branch.number, ROOT_LANE)  # what is kept of a prompt is the root's
        if lane != branch.number:
            sees[lane] = sees.get(lane, 0) + seen.length
    parent = None if branch.parent is None else branch.parent.number
    return Lane(branch.number, branch.name, branch.items, parent, min(passes, default=None), tuple(sees.items()))


def _prompt(request: RequestState) -> Iterator[Fed]:
    """The beginning of the root that the memory of prompts holds: what was there before, and what is new in it."""
    if not request.branches:
        return
    tokens = [token for seen in request.root.view for token in seen.branch.tokens[: seen.length]]
    decode = request.tokens.encoder.decode
    reused = min(request.reused_tokens, len(tokens))
    for part, start, was_kept in ((tokens[:reused], 0, True), (tokens[reused:], reused, False)):
        if part:
            yield Fed(ROOT_LANE, 1, decode(part), len(part), start, was_kept)


def _fed(branch: BranchState) -> Iterator[Fed]:
    """Runs of forced tokens, cut where a drawn one stands between them."""
    drawn = {one.index for one in branch.drawn}
    decode = branch.request.tokens.encoder.decode
    for first, count, forward_pass in branch.runs:
        start = first
        for index in range(first, first + count + 1):
            if index < first + count and index not in drawn:
                continue
            if index > start:
                tokens = branch.tokens[start:index]
                yield Fed(branch.number, forward_pass, decode(tokens), len(tokens), branch.positions[start])
            start = index + 1


def _drawn(branch: BranchState) -> Iterator[Drew]:
    for one in branch.drawn:
        position = branch.position if one.index is None else branch.positions[one.index]
        yield Drew(branch.number, one.forward_pass, one.text, one.token, one.log_probability, position)


def _joins(branch: BranchState) -> Iterator[JoinedLanes]:
    for since, index, joined in branch.join_marks:
        passes = [run[2] for run in branch.runs if run[0] + run[1] > index]
        if passes:
            yield JoinedLanes(branch.number, tuple(one.number for one in joined), since, passes[0])
