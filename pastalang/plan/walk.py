"""Through the segments of a branch, those inside choices and repeats included, with their addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from pastalang.plan.plan import Address, Branch, Choose, Plan, Repeat, Segment

Segments: TypeAlias = tuple[Segment, ...]


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
