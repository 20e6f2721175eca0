"""What a branch sees at its start: prefixes of its ancestors, and what these had joined by then.

    start(child) = start(parent) + the parent up to the fork + what the parent joined before the fork
    end(branch)  = start(branch) + what it joined
    joining b    = all of b + end(b)

Inside a repeat this is the pattern of the first item: the chain's later items also see what earlier ones joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pastalang.plan.branches import ROOT, WHOLE, Address, BranchId, Seen, Segments
from pastalang.plan.structure import Origin, joins_of

View: TypeAlias = dict[BranchId, Address]
Joins: TypeAlias = Mapping[BranchId, tuple[tuple[BranchId, ...], ...]]


def views_of(
    segments: Mapping[BranchId, Segments], origins: Mapping[BranchId, Origin]
) -> dict[BranchId, tuple[Seen, ...]]:
    joins = {id: joins_of(written) for id, written in segments.items()}
    starts: dict[BranchId, View] = {ROOT: {}}
    for id in _parents_first(segments, origins, joins):
        if id != ROOT:
            starts[id] = _start(id, origins, joins, starts)
    return {id: tuple(Seen(branch, view[branch]) for branch in sorted(view)) for id, view in starts.items()}


def show(view: View, branch: BranchId, until: Address) -> None:
    """Add a prefix of a branch to a view. Seeing two prefixes of a branch is seeing the longer one."""
    known = view.get(branch)
    if known is None or (known != WHOLE and (until == WHOLE or until > known)):
        view[branch] = until


def joined_view(branches: tuple[BranchId, ...], starts: Mapping[BranchId, View], joins: Joins) -> View:
    """What joining these branches adds: all of them, what they joined in turn, and what those saw at their start."""
    view: View = {}
    waiting = list(branches)
    while waiting:
        branch = waiting.pop()
        if view.get(branch) == WHOLE:
            continue
        view[branch] = WHOLE
        for seen, until in starts[branch].items():
            show(view, seen, until)
        waiting.extend(other for join in joins[branch] for other in join)
    return view


def _start(
    id: BranchId,
    origins: Mapping[BranchId, Origin],
    joins: Joins,
    starts: Mapping[BranchId, View],
) -> View:
    origin = origins[id]
    view = dict(starts[origin.parent])
    awaited = tuple(branch for join in joins[origin.parent][: origin.joined] for branch in join)
    for seen, until in joined_view(awaited, starts, joins).items():
        show(view, seen, until)
    show(view, origin.parent, origin.address)
    return view


def _parents_first(
    segments: Mapping[BranchId, Segments],
    origins: Mapping[BranchId, Origin],
    joins: Joins,
) -> list[BranchId]:
    """Every branch after its parent and after everything that its parent joined before the fork."""
    order: list[BranchId] = []
    state: dict[BranchId, bool] = {}  # False while waiting for what it needs, True when it is in the order
    for first in segments:
        stack = [first]
        while stack:
            id = stack[-1]
            if state.get(id) is None:
                state[id] = False
                stack.extend(need for need in _needs(id, origins, joins) if state.get(need) is None)
            else:
                stack.pop()
                if not state[id]:
                    state[id] = True
                    order.append(id)
    return order


def _needs(id: BranchId, origins: Mapping[BranchId, Origin], joins: Joins) -> list[BranchId]:
    if id == ROOT:
        return []
    origin = origins[id]
    needs = [origin.parent]
    known: set[BranchId] = set()
    waiting = [branch for join in joins[origin.parent][: origin.joined] for branch in join]
    while waiting:
        branch = waiting.pop()
        if branch not in known:
            known.add(branch)
            needs.append(branch)
            waiting.extend(other for join in joins[branch] for other in join)
    return needs
