"""What a join shows, and what changes for the branch that joins."""

from __future__ import annotations

from pastalang.plan.plan import (
    Join,
)
from pastalang.plan.positions import after_join
from pastalang.runtime.events import Joined
from pastalang.runtime.scheduler.branch import BranchState, Seen
from pastalang.runtime.scheduler.checkpoint import checkpoint_of
from pastalang.runtime.scheduler.lockstep import highest_seen
from pastalang.runtime.scheduler.settled import may_still_begin


def joined_by(branch: BranchState, segment: Join, address: tuple[int, ...]) -> tuple[BranchState, ...] | None:
    """What a join shows, in the order of the program; None while some of it has not ended or not even begun."""
    request = branch.request
    nesting = request.tokens.nesting
    here = branch.items_here()
    found: list[BranchState] = []
    for id in segment.branches:
        shared = here[: nesting.common[branch.spec.id, address, id]]
        instances = request.instances(id, shared)
        if not all(one.has_ended for one in instances) or may_still_begin(branch, id, shared):
            return None
        found += instances
    return tuple(found)


def join(branch: BranchState, joined: tuple[BranchState, ...]) -> None:
    if branch.request.reviewer is not None:
        branch.joins_met.append(checkpoint_of(branch, joined=joined))
    index = len(branch.tokens)
    before = branch.joins.get(index, ())
    branch.joins[index] = (*before, *(one for one in joined if one not in before))
    known = {seen.branch: seen.length for seen in branch.view}
    for one in joined:
        for seen in (*one.view, Seen(one, len(one.tokens))):
            if seen.branch is not branch and seen.length > known.get(seen.branch, -1):
                if seen.branch not in known:
                    seen.branch.viewers += 1
                known[seen.branch] = seen.length
    branch.view = tuple(Seen(seen, length) for seen, length in known.items())
    branch.sees = sum(known.values())
    highest = max(map(highest_seen, joined), default=-1)
    branch.position = after_join(branch.position, max(branch.highest, highest), branch.spec.overrun)
    branch.highest = max(branch.highest, highest)
    if joined:
        branch.join_marks.append((branch.joining_since, index, joined))
        names = tuple(one.name for one in joined)
        branch.request.events.append(Joined(branch.name, branch.items, names))
