"""Whether more instances of a branch can still come into being: what a join has to know before it goes on."""

from __future__ import annotations

from pastalang.plan.plan import ROOT, Address, BranchId, Choose, Repeat
from pastalang.runtime.scheduler.branch import BranchState


def may_still_begin(joiner: BranchState, id: BranchId, shared: tuple[int, ...]) -> bool:
    """Whether a branch that does not exist yet may become an instance of `id` whose items begin with `shared`."""
    if id == ROOT:
        return False
    request = joiner.request
    origin = request.tokens.nesting.origins[id]
    loops = len(request.tokens.nesting.loops[origin.parent])
    parents = request.instances(origin.parent, shared[:loops])
    for parent in parents:
        if parent is not joiner and not parent.has_ended and not _has_passed(parent, origin.address, shared):
            return True
    # An ancestor of the joiner exists already, and another instance of it is none of the joiner's business.
    if any(parent is joiner for parent in parents):
        return False
    return may_still_begin(joiner, origin.parent, shared[:loops])


def _has_passed(parent: BranchState, address: Address, shared: tuple[int, ...]) -> bool:
    """Whether `parent` stands behind the fork at `address`, in the items that `shared` names."""
    loops = len(parent.items)
    for depth, frame in enumerate(parent.frames):
        wanted = address[2 * depth]
        if frame.index != wanted:
            return frame.index > wanted
        if len(address) == 2 * depth + 1 or depth + 1 == len(parent.frames):
            return False
        inner = parent.frames[depth + 1]
        match frame.segments[wanted]:
            case Choose():
                if inner.address[-1] != address[2 * depth + 1]:
                    return True
            case Repeat():
                if loops >= len(shared):
                    return False
                if inner.item != shared[loops]:
                    return inner.item > shared[loops]
                loops += 1
            case _:
                return False
    return False
