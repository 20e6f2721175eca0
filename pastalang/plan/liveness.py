"""When the memory of a branch can be given back: as soon as nothing that is still to come can see it.

A branch is seen by itself and by what is forked from it; by every branch that joins it; and by every branch that
joins something forked from it, because a join also shows what the joined branch saw. `releases_of` decides this
for a plan, `Liveness` for the instances of one run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pastalang.graphs import reached
from pastalang.plan.branches import ROOT, BranchId, Instance, LockStep, PlanData, Release, Segments
from pastalang.plan.structure import Origin, joins_of, nesting_of, origins_of, shared_loops, synced_in


def releases_of(
    segments: Mapping[BranchId, Segments],
    origins: Mapping[BranchId, Origin],
    *,
    lockstep: Mapping[BranchId, LockStep | None],
) -> dict[BranchId, Release]:
    joiners = joiners_of(segments, origins)
    to_the_end = {ROOT} | _seen_by_root(joiners) | seen_in_lockstep(lockstep)
    releases: dict[BranchId, Release] = {}
    for id in segments:
        if id in to_the_end:
            releases[id] = Release.NEVER
        else:
            releases[id] = Release.AFTER_JOIN if joiners[id] else Release.AT_END
    return releases


def joiners_of(
    segments: Mapping[BranchId, Segments], origins: Mapping[BranchId, Origin]
) -> dict[BranchId, frozenset[BranchId]]:
    """The branches that join a branch or anything forked from it, without those that see its beginning anyway."""
    joiners: dict[BranchId, set[BranchId]] = {id: set() for id in segments}
    for joiner, written in segments.items():
        above = set(_ancestors(joiner, origins))
        for join in (*joins_of(written), tuple(synced_in(written))):
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
    return set(reached(shown_to[ROOT], shown_to))


def seen_in_lockstep(lockstep: Mapping[BranchId, LockStep | None]) -> set[BranchId]:
    """All values of a group but its last."""
    steps = {id: step for id, step in lockstep.items() if step is not None}
    last: dict[int, int] = {}
    for step in steps.values():
        last[step.group] = max(last.get(step.group, 0), step.index)
    return {id for id, step in steps.items() if step.index < last[step.group]}


class Liveness:
    """An instance has *gone* when it and everything forked from it have ended; its holders then decide."""

    def __init__(self, plan: PlanData, instances: Collection[Instance]) -> None:
        self._releases = [branch.release for branch in plan.branches]
        self._parents = _parents_of(plan, instances)
        self._open = dict.fromkeys(instances, 1)  # itself, and children that have not gone
        for parent in self._parents.values():
            self._open[parent] += 1
        self._held_by, self._holds = _holders_of(plan, instances)
        self._cells: dict[Instance, int] = {}
        self._free = 0

    def end(self, instance: Instance, cells: int) -> None:
        self._cells[instance] = cells
        here: Instance | None = instance
        while here is not None:
            self._open[here] -= 1
            if self._open[here]:
                return
            self._go(here)
            here = self._parents.get(here)

    def released(self) -> int:
        """The cells that have become free since the last time."""
        free, self._free = self._free, 0
        return free

    def _go(self, gone: Instance) -> None:
        for held in self._holds.get(gone, ()):
            self._held_by[held] -= 1
            if not self._held_by[held] and not self._open[held]:
                self._free += self._cells[held]
        release = self._releases[gone.branch]
        if release is Release.AT_END or (release is Release.AFTER_JOIN and not self._held_by[gone]):
            self._free += self._cells[gone]


def _parents_of(plan: PlanData, instances: Collection[Instance]) -> dict[Instance, Instance]:
    loops = nesting_of(plan).loops
    parents = {}
    for instance in instances:
        if instance.branch != ROOT:
            parent = plan.branch(instance.branch).parent
            assert parent is not None
            parents[instance] = Instance(parent, instance.items[: len(loops[parent])])
    return parents


def _holders_of(
    plan: PlanData, instances: Collection[Instance]
) -> tuple[dict[Instance, int], dict[Instance, list[Instance]]]:
    """How many instances hold each one that is released after joins, and the instances that each one holds."""
    segments = {branch.id: branch.segments for branch in plan.branches}
    joiners = joiners_of(segments, origins_of(segments))
    loops = nesting_of(plan).loops
    held_by: dict[Instance, int] = {}
    holds: dict[Instance, list[Instance]] = {}
    known: dict[tuple[BranchId, tuple[int, ...]], list[Instance]] = {}
    for instance in instances:
        for length in range(len(instance.items) + 1):
            known.setdefault((instance.branch, instance.items[:length]), []).append(instance)
    for instance in instances:
        if plan.branch(instance.branch).release is Release.AFTER_JOIN:
            held_by[instance] = 0
            for holder in set(reached(joiners[instance.branch], joiners)) - {instance.branch}:
                shared = shared_loops(loops[instance.branch], loops[holder])
                for other in known.get((holder, instance.items[:shared]), ()):
                    held_by[instance] += 1
                    holds.setdefault(other, []).append(instance)
    return held_by, holds
