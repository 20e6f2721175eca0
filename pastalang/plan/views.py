"""What a branch sees at its start: prefixes of its ancestors, and what these had joined by then.

    start(child) = start(parent) + the parent up to the fork + what the parent joined before the fork
    end(branch)  = start(branch) + what it joined
    joining b    = all of b + end(b)

Inside a repeat this is the pattern of the first item: the chain's later items also see what earlier ones joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from itertools import chain
from typing import TypeAlias

from pastalang.graphs import reached
from pastalang.plan.branches import ROOT, WHOLE, Address, BranchId, Seen, Segments
from pastalang.plan.structure import Origin, joins_of

View: TypeAlias = dict[BranchId, Address]


def views_of(
    segments: Mapping[BranchId, Segments], origins: Mapping[BranchId, Origin]
) -> dict[BranchId, tuple[Seen, ...]]:
    in_turn = {id: joins_of(written) for id, written in segments.items()}
    joins = {id: tuple(chain.from_iterable(found)) for id, found in in_turn.items()}
    awaited = {  # before the fork
        id: tuple(chain.from_iterable(in_turn[origin.parent][: origin.joined])) for id, origin in origins.items()
    }
    needs = {id: [origin.parent, *reached(awaited[id], joins)] for id, origin in origins.items()}
    starts: dict[BranchId, View] = {ROOT: {}}
    for id in TopologicalSorter(needs).static_order():
        if id != ROOT:
            starts[id] = _start(origins[id], joined_view(awaited[id], starts, joins), starts)
    return {id: tuple(Seen(branch, view[branch]) for branch in sorted(view)) for id, view in starts.items()}


def joined_view(
    branches: Iterable[BranchId], starts: Mapping[BranchId, View], joins: Mapping[BranchId, Iterable[BranchId]]
) -> View:
    """What joining these branches adds: all of them, what they joined in turn, and what those saw at their start."""
    joined = reached(branches, joins)
    view = dict.fromkeys(joined, WHOLE)
    for branch in joined:
        for seen, until in starts[branch].items():
            _show(view, seen, until)
    return view


def _start(origin: Origin, joined: View, starts: Mapping[BranchId, View]) -> View:
    view = dict(starts[origin.parent])
    for seen, until in (*joined.items(), (origin.parent, origin.address)):
        _show(view, seen, until)
    return view


def _show(view: View, branch: BranchId, until: Address) -> None:
    """Add a prefix of a branch to a view. Seeing two prefixes of a branch is seeing the longer one."""
    known = view.get(branch)
    if known is None or (known != WHOLE and (until == WHOLE or until > known)):
        view[branch] = until
