"""How many cells a branch may need for itself: what is set aside before it takes its first one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pastalang.plan.plan import (
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Place,
    Repeat,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.runtime.leads import fed_text
from pastalang.runtime.scheduler.branch import BranchState


def cells_wanted(branch: BranchState) -> int:
    """What it has to write already, and its holes at their longest. A list counts for as few items as it may have:
    whoever runs out all the same waits, and what is seen does not change."""
    written = len(branch.tokens)
    return max(written - branch.fed, 0) + sum(_wanted(branch, segment) for segment in _rest(branch))


def _rest(branch: BranchState) -> Iterable[Segment]:
    for frame in branch.frames:
        yield from frame.segments[frame.index :]


def _wanted(branch: BranchState, segment: Segment) -> int:
    encode = branch.request.tokens.encoder.text
    match segment:
        case Hole(max_tokens=tokens):
            return tokens
        case Text():
            return len(encode(fed_text(segment)))
        case Choose(arms=arms):
            return max(
                len(encode(fed_text(arm))) + sum(_wanted(branch, inner) for inner in arm.segments) for arm in arms
            )  # fmt: skip
        case Repeat(body=body, minimum=minimum):
            return max(1, minimum) * (2 + sum(_wanted(branch, inner) for inner in body))
        case ItemNumber():
            return 2
        case InputText() | TurnStart() | TurnEnd() | Fork() | Place() | Join() | Each():
            return 0
        case _:
            assert_never(segment)
