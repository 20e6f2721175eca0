"""Which loops (repeats and fan-outs) a branch and a join stand in: what `same item` and `all items` mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.plan.origins import Origin, origins_of
from pastalang.plan.plan import ROOT, Address, BranchId, Choose, Each, Join, Plan, Repeat
from pastalang.plan.walk import Segments

Loop: TypeAlias = tuple[BranchId, Address]  # the repeat or fan-out at this place


@dataclass(frozen=True)
class Nesting:
    """`loops` of each branch, outermost first: an instance has one item number for each of them."""

    loops: dict[BranchId, tuple[Loop, ...]]
    origins: dict[BranchId, Origin]
    common: dict[tuple[BranchId, Address, BranchId], int]  # (joiner, its join, joined): loops that both stand in


def nesting_of(plan: Plan) -> Nesting:
    segments = {branch.id: branch.segments for branch in plan.branches}
    origins = origins_of(segments)
    loops: dict[BranchId, tuple[Loop, ...]] = {ROOT: ()}
    for id in _outside_in(origins):
        if id != ROOT:
            loops[id] = _loops_of(id, origins[id], segments, loops)
    common: dict[tuple[BranchId, Address, BranchId], int] = {}
    for joiner, written in segments.items():
        for address, join, inside in _joins(joiner, written, (), loops[joiner]):
            for joined in join.branches:
                common[joiner, address, joined] = shared_loops(inside, loops[joined])
    return Nesting(loops, origins, common)


def _outside_in(origins: dict[BranchId, Origin]) -> Iterator[BranchId]:
    children: dict[BranchId, list[BranchId]] = {}
    for id, origin in origins.items():
        children.setdefault(origin.parent, []).append(id)
    waiting = [ROOT]
    while waiting:
        id = waiting.pop()
        yield id
        waiting.extend(children.get(id, ()))


def _loops_of(
    id: BranchId, origin: Origin, segments: dict[BranchId, Segments], loops: dict[BranchId, tuple[Loop, ...]]
) -> tuple[Loop, ...]:
    """The parent's loops, the repeats around the fork inside the parent, and the fan-out itself if it is one."""
    found = list(loops[origin.parent])
    written = segments[origin.parent]
    address = origin.address
    for depth in range(0, len(address), 2):
        segment = written[address[depth]]
        here = (origin.parent, address[: depth + 1])
        match segment:
            case Repeat(body=body):
                found.append(here)
                written = body
            case Choose(arms=arms):
                written = arms[address[depth + 1]].segments
            case Each():
                found.append(here)
            case _:
                pass
    return tuple(found)


def _joins(
    id: BranchId, written: Segments, prefix: Address, inside: tuple[Loop, ...]
) -> Iterator[tuple[Address, Join, tuple[Loop, ...]]]:
    for index, segment in enumerate(written):
        address = (*prefix, index)
        match segment:
            case Join():
                yield address, segment, inside
            case Choose(arms=arms):
                for number, arm in enumerate(arms):
                    yield from _joins(id, arm.segments, (*address, number), inside)
            case Repeat(body=body):
                yield from _joins(id, body, (*address, 0), (*inside, (id, address)))
            case _:
                pass


def shared_loops(one: tuple[Loop, ...], other: tuple[Loop, ...]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
