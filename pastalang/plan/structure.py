"""The structure of a plan: its segments with their addresses, where each branch is forked, the loops around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.graphs import reached
from pastalang.plan.branches import (
    ROOT,
    Address,
    Arm,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    ItemNumber,
    Join,
    Place,
    PlanData,
    Repeat,
    Segment,
    Segments,
    Text,
)
from pastalang.program.types import AutoPolicy


@dataclass(frozen=True, slots=True)
class Visit:
    """A segment with its surroundings: `around` are the choices and repeats that hold it, outermost first.

    `following` is the segment that the branch reaches next, None at its end. At the end of an item that is the repeat,
    which decides whether there is another one.
    """

    address: Address
    segment: Segment
    around: tuple[tuple[Address, Choose | Repeat], ...]
    following: Segment | None

    @property
    def repeats(self) -> tuple[Address, ...]:
        """The addresses of the repeats around it, outermost first."""
        return tuple(address for address, segment in self.around if isinstance(segment, Repeat))


def visit(segments: Segments) -> Iterator[Visit]:
    """Every segment in the order written; a choice or a repeat comes before what it holds."""
    return _visit(segments, (), (), None)


def _visit(
    segments: Segments, prefix: Address, around: tuple[tuple[Address, Choose | Repeat], ...], end: Segment | None
) -> Iterator[Visit]:
    for index, segment in enumerate(segments):
        address = (*prefix, index)
        following = segments[index + 1] if index + 1 < len(segments) else end
        yield Visit(address, segment, around, following)
        match segment:
            case Choose(arms=arms):
                inside = (*around, (address, segment))
                for number, arm in enumerate(arms):
                    yield from _visit(arm.segments, (*address, number), inside, following)
            case Repeat(body=body):
                yield from _visit(body, (*address, 0), (*around, (address, segment)), segment)
            case _:
                pass


def walk(segments: Segments) -> Iterator[tuple[Address, Segment]]:
    """Every segment with its address, in the order of `visit`."""
    return ((found.address, found.segment) for found in visit(segments))


def measure(
    segments: Iterable[Segment], *, one: Callable[[Segment | Arm], int], repeat: Callable[[Repeat, int], int]
) -> int:
    """The size of segments one after another: of a choice, that of its largest arm, whose lead `one` measures.

    `repeat` gives the size of a list from that of its body.
    """

    def size(segment: Segment) -> int:
        match segment:
            case Choose(arms=arms):
                return max(one(arm) + measure(arm.segments, one=one, repeat=repeat) for arm in arms)
            case Repeat(body=body):
                return repeat(segment, measure(body, one=one, repeat=repeat))
            case _:
                return one(segment)

    return sum(map(size, segments))


def fields_of(plan: PlanData) -> Iterator[tuple[Branch, Address, Hole | Choose | Repeat]]:
    """Every value, choice and list of the plan."""
    for branch, address, segment in walk_plan(plan):
        if isinstance(segment, Hole | Choose | Repeat):
            yield branch, address, segment


def leads_of(segment: Segment) -> tuple[Text | ItemNumber, ...]:
    """The texts, besides those of its items, that a list writes."""
    return (*segment.first, *segment.between) if isinstance(segment, Repeat) else ()


def walk_plan(plan: PlanData) -> Iterator[tuple[Branch, Address, Segment]]:
    for branch in plan.branches:
        for address, segment in walk(branch.segments):
            yield branch, address, segment


@dataclass(frozen=True, slots=True)
class Origin:
    parent: BranchId
    address: Address
    joined: int  # how many joins come before the fork in the parent, in the order of `walk`
    loops: tuple[Address, ...]  # the loops of the parent around the fork, and the fork itself if it may fork several


def origins_of(segments: Mapping[BranchId, Segments]) -> dict[BranchId, Origin]:
    """Of every branch but the root."""
    origins: dict[BranchId, Origin] = {}
    for parent, written in segments.items():
        joined = 0
        for found in visit(written):
            match found.segment:
                case Join():
                    joined += 1
                case segment if (branch := forked_by(segment)) is not None:
                    assert branch not in origins, f"branch {branch} is forked twice"
                    itself = () if isinstance(segment, Fork) else (found.address,)
                    origins[branch] = Origin(parent, found.address, joined, (*found.repeats, *itself))
                case _:
                    pass
    return origins


def forked_by(segment: Segment) -> BranchId | None:
    """The branch that starts at this segment: once, or as often as a list or the model says."""
    match segment:
        case Fork(branch=branch) | Each(branch=branch):
            return branch
        case Hole(threads=threads):
            return threads
        case _:
            return None


def placed_in(branches: Iterable[Segments]) -> frozenset[BranchId]:
    """The branches whose text is placed elsewhere than at their fork."""
    return frozenset(
        segment.branch for segments in branches for _, segment in walk(segments) if isinstance(segment, Place)
    )


def threads_in(plan: PlanData) -> set[BranchId]:
    """The branches whose instances the model starts itself."""
    holes = (segment for _, _, segment in walk_plan(plan) if isinstance(segment, Hole))
    return {hole.threads for hole in holes if hole.threads is not None}


def synced_in(segments: Segments) -> Iterator[BranchId]:
    """The threads that a text may wait for where the model says so."""
    for _, segment in walk(segments):
        if isinstance(segment, Hole) and segment.threads is not None and segment.auto is AutoPolicy.PASTA:
            yield segment.threads


def joins_of(segments: Segments) -> tuple[tuple[BranchId, ...], ...]:
    """The branches of every join, in the order of `walk`."""
    return tuple(segment.branches for _, segment in walk(segments) if isinstance(segment, Join))


def joined_in(segments: Segments) -> tuple[BranchId, ...]:
    """The branches of all joins together."""
    return tuple(branch for join in joins_of(segments) for branch in join)


Loop: TypeAlias = tuple[BranchId, Address]  # the repeat, the fan-out or the text with threads at this place


@dataclass(frozen=True)
class Nesting:
    """`loops` of each branch, outermost first: an instance has one item number for each of them."""

    loops: dict[BranchId, tuple[Loop, ...]]
    origins: dict[BranchId, Origin]
    common: dict[tuple[BranchId, Address, BranchId], int]  # (joiner, its join, joined): loops around both


def nesting_of(plan: PlanData) -> Nesting:
    segments = {branch.id: branch.segments for branch in plan.branches}
    origins = origins_of(segments)
    loops: dict[BranchId, tuple[Loop, ...]] = {ROOT: ()}
    children: dict[BranchId, list[BranchId]] = {}
    for id, origin in origins.items():
        children.setdefault(origin.parent, []).append(id)
    for id in reached([ROOT], children)[1:]:
        parent = origins[id].parent
        loops[id] = (*loops[parent], *((parent, address) for address in origins[id].loops))
    common: dict[tuple[BranchId, Address, BranchId], int] = {}
    for joiner, written in segments.items():
        for found in visit(written):
            if isinstance(found.segment, Join):
                inside = (*loops[joiner], *((joiner, address) for address in found.repeats))
                for joined in found.segment.branches:
                    common[joiner, found.address, joined] = shared_loops(inside, loops[joined])
    return Nesting(loops, origins, common)


def shared_loops(one: tuple[Loop, ...], other: tuple[Loop, ...]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
