"""From what the policies wrote to finished branches: parents, views, follow texts and releases, for all alike."""

from __future__ import annotations

from collections.abc import Mapping

from pastalang.plan.draft import BranchBody
from pastalang.plan.follow_text import with_follow_texts
from pastalang.plan.liveness import releases_of
from pastalang.plan.plan import ROOT, Branch, BranchId, Overrun
from pastalang.plan.structure import Origin, origins_of
from pastalang.plan.views import views_of


def complete(drafted: tuple[BranchBody, ...], *, overrun: Overrun) -> tuple[Branch, ...]:
    origins = origins_of({branch.id: branch.segments for branch in drafted})
    segments = with_follow_texts({branch.id: branch.segments for branch in drafted})
    views = views_of(segments, origins)
    releases = releases_of(segments, origins, lockstep={branch.id: branch.lockstep for branch in drafted})
    return tuple(
        Branch(
            id=branch.id,
            name=branch.name,
            parent=_parent(branch.id, origins),
            segments=segments[branch.id],
            view=views[branch.id],
            reserve=branch.reserve,
            overrun=overrun,
            release=releases[branch.id],
            lockstep=branch.lockstep,
        )
        for branch in drafted
    )


def _parent(id: BranchId, origins: Mapping[BranchId, Origin]) -> BranchId | None:
    return None if id == ROOT else origins[id].parent
