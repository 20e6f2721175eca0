"""The structure of a plan: its segments with their addresses, where each branch is forked, the loops around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.plan.plan import (
    ROOT,
    Address,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Join,
    Plan,
    Repeat,
    Segment,
    Segments,
)


def walk(segments: Segments, prefix: Address = ()) -> Iterator[tuple[Address, Segment]]:
    """In the order written; a choice or a repeat comes before what is inside it."""
    for index, segment in enumerate(segments):
        address = (*prefix, index)
        yield address, segment
        match segment:
            case Choose(arms=arms):
                for number, arm in enumerate(arms):
                    yield from walk(arm.segments, (*address, number))
            case Repeat(body=body):
                yield from walk(body, (*address, 0))
            case _:
                pass


def walk_plan(plan: Plan) -> Iterator[tuple[Branch, Address, Segment]]:
    for branch in plan.branches:
        for address, segment in walk(branch.segments):
            yield branch, address, segment


@dataclass(frozen=True, slots=True)
class Origin:
    parent: BranchId
    address: Address
    joined: int  # how many joins stand before the fork in the parent, in the order of `walk`


def origins_of(segments: Mapping[BranchId, Segments]) -> dict[BranchId, Origin]:
    """Of every branch but the root."""
    origins: dict[BranchId, Origin] = {}
    for parent, written in segments.items():
        joined = 0
        for address, segment in walk(written):
            match segment:
                case Join():
                    joined += 1
                case Fork(branch=branch) | Each(branch=branch):
                    assert branch not in origins, f"branch {branch} is forked twice"
                    origins[branch] = Origin(parent, address, joined)
                case _:
                    pass
    return origins


def joins_of(segments: Segments) -> tuple[tuple[BranchId, ...], ...]:
    """The branches of every join, in the order of `walk`."""
    return tuple(segment.branches for _, segment in walk(segments) if isinstance(segment, Join))


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
