"""When the memory of each branch can be given back: when nothing that is still to come can see it.

A branch is seen by itself and by what is forked from it; by whoever joins it; and by whoever joins something
forked from it, because a join also shows what the joined branch saw.
"""

from __future__ import annotations

from collections.abc import Mapping

from pastalang.plan.plan import ROOT, BranchId, LockStep, Release
from pastalang.plan.structure import Origin, Segments, joins_of


def releases_of(
    segments: Mapping[BranchId, Segments],
    origins: Mapping[BranchId, Origin],
    *,
    lockstep: Mapping[BranchId, LockStep | None],
) -> dict[BranchId, Release]:
    joiners = joiners_of(segments, origins)
    to_the_end = _seen_by_root(joiners)
    last = _last_of_groups(lockstep)
    releases: dict[BranchId, Release] = {}
    for id in segments:
        step = lockstep[id]
        if id == ROOT or id in to_the_end or (step is not None and step.index < last[step.group]):
            releases[id] = Release.NEVER
        else:
            releases[id] = Release.AFTER_JOIN if joiners[id] else Release.AT_END
    return releases


def joiners_of(
    segments: Mapping[BranchId, Segments], origins: Mapping[BranchId, Origin]
) -> dict[BranchId, frozenset[BranchId]]:
    """Who joins a branch or anything forked from it, other than those that see its beginning anyway."""
    joiners: dict[BranchId, set[BranchId]] = {id: set() for id in segments}
    for joiner, written in segments.items():
        above = set(_ancestors(joiner, origins))
        for join in joins_of(written):
            for branch in join:
                for seen in (branch, *_ancestors(branch, origins)):
                    if seen not in above and seen != joiner:
                        joiners[seen].add(joiner)
    return {id: frozenset(others) for id, others in joiners.items()}


def _ancestors(id: BranchId, origins: Mapping[BranchId, Origin]) -> list[BranchId]:
    ancestors = []
    while id != ROOT:
        id = origins[id].parent
        ancestors.append(id)
    return ancestors


def _seen_by_root(joiners: Mapping[BranchId, frozenset[BranchId]]) -> set[BranchId]:
    """What the root sees once it has joined: directly, or through a branch that had joined it before."""
    shown_to: dict[BranchId, list[BranchId]] = {id: [] for id in joiners}
    for branch, others in joiners.items():
        for joiner in others:
            shown_to[joiner].append(branch)
    seen: set[BranchId] = set()
    waiting = list(shown_to[ROOT])
    while waiting:
        branch = waiting.pop()
        if branch not in seen:
            seen.add(branch)
            waiting.extend(shown_to[branch])
    return seen


def _last_of_groups(lockstep: Mapping[BranchId, LockStep | None]) -> dict[int, int]:
    last: dict[int, int] = {}
    for step in lockstep.values():
        if step is not None:
            last[step.group] = max(last.get(step.group, 0), step.index)
    return last
