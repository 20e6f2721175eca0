"""Where something stands in the loops around it, and what "the same item" means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pastalang.plan.plan import Address, BranchId

Loop: TypeAlias = tuple[BranchId, Address]  # a repeat or a fan-out: the branch that it stands in, and where
Place: TypeAlias = Mapping[Loop, int]  # the loops around something, outermost first, each with its item


def agree(one: Place, other: Place) -> bool:
    """The same item of every loop that both stand in."""
    return all(other[loop] == item for loop, item in one.items() if loop in other)
