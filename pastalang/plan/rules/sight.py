"""Who sees what, and when its memory may go.

Written from the other end than `views.py` and `releases.py`: there a view is carried along, here it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.plan.plan import ROOT, WHOLE, Address, BranchId, Plan, Release, Seen
from pastalang.plan.structure import joins_of, origins_of


def a_view_holds_only_what_comes_before(plan: Plan) -> Iterator[str]:
    known = _Known(plan)
    for branch in plan.branches:
        way, joined = known.before(branch.id)
        for seen in branch.view:
            on_the_way = way.get(seen.branch)
            is_prefix = on_the_way is not None and seen.until != WHOLE and seen.until <= on_the_way
            if not is_prefix and seen.branch not in joined:
                yield f"{branch.name!r} sees {plan.branches[seen.branch].name!r} before it is known"


def a_view_holds_the_whole_way_from_the_root(plan: Plan) -> Iterator[str]:
    origins = origins_of({branch.id: branch.segments for branch in plan.branches})
    for branch in plan.branches:
        if branch.id != ROOT:
            origin = origins[branch.id]
            if Seen(origin.parent, origin.address) not in branch.view:
                yield f"{branch.name!r} does not see its parent up to its fork"
            missing = {seen.branch for seen in plan.branches[origin.parent].view} - {
                seen.branch for seen in branch.view
            }
            if missing:
                yield f"{branch.name!r} does not see all that its parent sees"


def memory_is_kept_while_somebody_can_see_it(plan: Plan) -> Iterator[str]:
    """Whoever joins a branch sees all that it sees, so none of that may go when that branch alone has ended."""
    ends = _Ends(plan)
    forgotten = {branch.id for branch in plan.branches if branch.release is Release.AT_END}
    seen_by_root = {ROOT}
    for branch in plan.branches:
        mine = {branch.id} | {seen.branch for seen in branch.view}
        for joined in ends.joins[branch.id]:
            shown = ends.seen_by(joined) - mine
            for other in sorted(shown & forgotten):
                yield f"{plan.branches[other].name!r} is forgotten at its end, and {branch.name!r} still joins it"
            if branch.id == ROOT:
                seen_by_root |= shown
    for other in sorted(seen_by_root):
        if plan.branches[other].release is not Release.NEVER:
            yield f"{plan.branches[other].name!r} is forgotten, and the root sees it to the end"


class _Ends:
    """What a branch sees when it has ended: itself, its view, what it joined, and what those saw at their ends."""

    def __init__(self, plan: Plan) -> None:
        self._views = [{seen.branch for seen in branch.view} | {branch.id} for branch in plan.branches]
        self._known: dict[BranchId, set[BranchId]] = {}
        self.joins = [tuple(branch for join in joins_of(each.segments) for branch in join) for each in plan.branches]

    def seen_by(self, id: BranchId) -> set[BranchId]:
        if id not in self._known:
            found: set[BranchId] = set()
            looked_at, waiting = {id}, [id]
            while waiting:
                branch = waiting.pop()
                known = self._known.get(branch)
                found |= self._views[branch] if known is None else known
                if known is None:
                    waiting.extend(other for other in self.joins[branch] if other not in looked_at)
                    looked_at.update(self.joins[branch])
            self._known[id] = found
        return self._known[id]


class _Known:
    """What has surely been written when a branch starts: its way from the root, and what was joined on the way."""

    def __init__(self, plan: Plan) -> None:
        segments = {branch.id: branch.segments for branch in plan.branches}
        self._joins = {id: joins_of(written) for id, written in segments.items()}
        self._origins = origins_of(segments)
        self._ends = _Ends(plan)

    def before(self, id: BranchId) -> tuple[dict[BranchId, Address], set[BranchId]]:
        way: dict[BranchId, Address] = {}
        joined: set[BranchId] = set()
        here = id
        while here != ROOT:
            origin = self._origins[here]
            way[origin.parent] = origin.address
            for join in self._joins[origin.parent][: origin.joined]:
                for branch in join:
                    joined |= self._ends.seen_by(branch)
            here = origin.parent
        return way, joined
