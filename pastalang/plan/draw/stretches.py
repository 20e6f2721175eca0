"""From a plan to stretches of positions: where the branch with the most forks leaves gaps, and what fills them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pastalang.plan.draw.captions import describe_words
from pastalang.plan.plan import (
    ROOT,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Overrun,
    Plan,
    Repeat,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.token_bounds import Lengths
from pastalang.program.program import Role

CHARACTERS_PER_TOKEN = 4
LENGTH_OF_DATA = 2  # nobody knows it before the run
SHOWN_ITEMS = 3

Count: TypeAlias = Callable[[str], int]


class Kind(Enum):
    FED = "fed"  # forced text
    BAR = "bar"  # a value
    GAP = "gap"  # left for a branch


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions `[start, end)`; of a gap, `reach` is how far the branch in it can go."""

    start: int
    end: int
    name: str
    kind: Kind
    reach: int = 0


def estimate(text: str) -> int:
    """The tokens of a text, without a tokenizer."""
    return max(1, len(text) // CHARACTERS_PER_TOKEN)


def counter_of(lengths: Lengths) -> Count:
    """Exact with a tokenizer; its bounds would draw text far too long without one."""
    encoder = lengths.encoder
    return estimate if encoder is None else lambda text: len(encoder.encode(text))


def stretches_of(plan: Plan, count: Count = estimate) -> tuple[Stretch, ...]:
    """Along the branch that forks most, from the beginning of the answer."""
    branch = max(plan.branches, key=lambda each: (_forks(each.segments), -each.id))
    walk = _Along(plan, count)
    walk.go(_answer(branch.segments))
    return tuple(walk.stretches)


class _Along:
    def __init__(self, plan: Plan, count: Count) -> None:
        self.plan = plan
        self.count = count
        self.at = 0
        self.stretches: list[Stretch] = []
        self.reaches: dict[BranchId, int] = {}

    def go(self, segments: tuple[Segment, ...]) -> None:
        for segment in segments:
            match segment:
                case Text(text):
                    self._add(self.count(text), describe_words((segment,)), Kind.FED)
                case InputText() | ItemNumber():
                    self._add(LENGTH_OF_DATA, describe_words((segment,)), Kind.FED)
                case Hole():
                    self._add(segment.max_tokens, segment.field, Kind.BAR)
                case Fork():
                    self._gap(segment.branch, 1)
                case Each():
                    self._gap(segment.branch, segment.maximum)
                case Choose():
                    longest = max(segment.arms, key=lambda arm: len(arm.segments))
                    self._add(1, " or ".join(arm.label for arm in segment.arms), Kind.BAR)
                    self.go(longest.segments)
                case Repeat():
                    for _ in range(min(segment.maximum, SHOWN_ITEMS)):
                        self.go(segment.body)
                case Join() if self.plan.branch(ROOT).overrun is not Overrun.PAPER:
                    self.at = max([self.at, *(self.reaches.get(branch, 0) for branch in segment.branches)])
                case _:
                    pass

    def _add(self, length: int, name: str, kind: Kind) -> None:
        self.stretches.append(Stretch(self.at, self.at + length, name, kind))
        self.at += length

    def _gap(self, id: BranchId, times: int) -> None:
        child = self.plan.branches[id]
        room = child.reserve * times
        reach = self.at + _length(self, child.segments)
        self.reaches[child.id] = max(reach, self.reaches.get(child.id, 0))
        self.stretches.append(Stretch(self.at, self.at + room, child.name, Kind.GAP, reach))
        self.at += room


def _answer(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """What stands behind the last turn that is opened for the model."""
    opened = [i for i, each in enumerate(segments) if isinstance(each, TurnStart) and each.role is Role.ASSISTANT]
    return tuple(each for each in segments[opened[-1] + 1 if opened else 0 :] if not isinstance(each, TurnEnd))


def _forks(segments: tuple[Segment, ...]) -> int:
    count = 0
    for segment in segments:
        match segment:
            case Fork() | Each():
                count += 1
            case Choose():
                count += sum(_forks(arm.segments) for arm in segment.arms)
            case Repeat():
                count += _forks(segment.body)
            case _:
                pass
    return count


def _length(around: _Along, segments: tuple[Segment, ...]) -> int:
    walk = _Along(around.plan, around.count)
    walk.go(segments)
    return walk.at
