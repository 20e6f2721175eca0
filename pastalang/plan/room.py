"""How many tokens segments can take at most: what a gap has to hold.

Without a tokenizer, forced text counts its UTF-8 bytes: no token of a byte-level vocabulary is shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from pastalang.plan.plan import (
    BranchId,
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


def room_of(segments: Iterable[Segment], reserves: Mapping[BranchId, int]) -> int:
    """The positions that a branch of these segments can reach beyond its start."""
    return sum(_room(segment, reserves) for segment in segments)


def text_room(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _room(segment: Segment, reserves: Mapping[BranchId, int]) -> int:
    match segment:
        case Text(text=text):
            return text_room(text)
        case Hole(max_tokens=tokens):
            return tokens
        case Fork(branch=branch):
            return reserves[branch]
        case Each(branch=branch, maximum=maximum, stacked=stacked):
            return 0 if stacked else reserves[branch] * maximum
        case Choose(arms=arms):
            return max(text_room(arm.lead) + room_of(arm.segments, reserves) for arm in arms)
        case Repeat():
            return _repeat_room(segment, reserves)
        case ItemNumber():
            return 8
        case InputText() | Join() | Place() | TurnStart() | TurnEnd():
            return 0  # data and turns stand where nothing is reserved
        case _:
            assert_never(segment)


def _repeat_room(repeat: Repeat, reserves: Mapping[BranchId, int]) -> int:
    body = room_of(repeat.body, reserves)
    first, between = room_of(repeat.first, reserves), room_of(repeat.between, reserves)
    items = first + body + (repeat.maximum - 1) * (between + body) if repeat.maximum else 0
    return items + max(text_room(repeat.stop or ""), text_room(repeat.empty or ""))
