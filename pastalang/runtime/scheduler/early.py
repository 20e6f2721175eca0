"""With chunks, text that a join will want: it is asked for while others are still awaited, so that none of its passes
come behind theirs. Without chunks it takes one pass whenever it is asked for, and that is the pass that wants it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pastalang.plan.plan import Choose, Each, Fork, Hole, Repeat, Segment
from pastalang.runtime.scheduler.branch import BranchState, Stage
from pastalang.runtime.scheduler.request import RequestState


def demand_early(request: RequestState) -> None:
    """What is to be joined, what stands before a join that waits, and what a branch was forked behind that waits."""
    for branch in list(request.held):
        if len(branch.tokens) > branch.demand:
            if _will_be_seen(branch):
                request.demand(branch, len(branch.tokens))
            elif branch.children:
                request.demand(branch, 1 + max(index for index, _ in branch.children))


def _will_be_seen(branch: BranchState) -> bool:
    if branch.request.tokens.joiners[branch.spec.id]:
        return True
    return branch.stage is Stage.JOINING and any(_may_draw(frame.segments[frame.index :]) for frame in branch.frames)


def _may_draw(segments: Iterable[Segment]) -> bool:
    """Whether anything behind a join may see what stands before it."""
    return any(isinstance(segment, Hole | Choose | Repeat | Fork | Each) for segment in segments)
