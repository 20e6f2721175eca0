"""Where each branch is forked: its parent, the address of the fork, and what the parent had joined before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pastalang.plan.plan import Address, BranchId, Each, Fork, Join
from pastalang.plan.walk import Segments, walk


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
