"""The text that follows every hole in the answer, as far as it is known before decoding.

The walk goes from the end of the answer to its beginning and carries along the known text that follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pastalang.plan.branches import (
    ROOT,
    Arm,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    ItemNumber,
    Join,
    KnownText,
    Place,
    Repeat,
    Segment,
    Segments,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.structure import placed_in


def with_follow_texts(segments: Mapping[BranchId, Segments]) -> dict[BranchId, Segments]:
    """The same branches with every hole knowing what follows it."""
    answer = _Answer(dict(segments), placed_in(segments.values()))
    answer.branch(ROOT, "")
    return answer.segments


class _Answer:
    """`segments` is filled with the finished branches as the walk passes them."""

    def __init__(self, segments: dict[BranchId, Segments], placed: frozenset[BranchId]) -> None:
        self.segments = segments
        self._placed = placed  # their text is not at their fork

    def branch(self, id: BranchId, following: str) -> str:
        """The known text at the beginning of the branch, when `following` follows it."""
        self.segments[id], start = self._all(self.segments[id], following)
        return start

    def _all(self, segments: Segments, following: str) -> tuple[Segments, str]:
        done: list[Segment] = []
        for segment in reversed(segments):
            finished, following = self._one(segment, following)
            done.append(finished)
        return tuple(reversed(done)), following

    def _one(self, segment: Segment, following: str) -> tuple[Segment, str]:
        """The finished segment, and the known text at its beginning."""
        match segment:
            case Text(text=text, shown=shown):
                return segment, text + following if shown else following
            case Hole():
                return replace(segment, follow=following), ""
            case Fork(branch=branch) if branch in self._placed:
                return segment, following
            case Fork(branch=branch) | Place(branch=branch):
                return segment, self.branch(branch, following)
            case Each(branch=branch):
                self.branch(branch, "")  # data decides whether another item follows
                return segment, ""
            case Choose():
                return self._choose(segment, following)
            case Repeat():
                return self._repeat(segment, following)
            case Join():
                return segment, following
            case TurnStart() | TurnEnd():
                return segment, ""
            case _:
                assert isinstance(segment, KnownText)
                return segment, ""  # what it says is known later

    def _choose(self, choose: Choose, following: str) -> tuple[Segment, str]:
        arms = []
        for arm in choose.arms:
            segments, _ = self._all(arm.segments, following)
            arms.append(Arm(arm.label, arm.lead, segments))
        return replace(choose, arms=tuple(arms)), _common(*(arm.lead for arm in choose.arms))

    def _repeat(self, repeat: Repeat, following: str) -> tuple[Segment, str]:
        stop = None if repeat.stop is None else repeat.stop + following
        between = _known(repeat.between)
        body, start = self._all(repeat.body, _after_item(repeat, between, stop))
        if repeat.over is not None or repeat.stop is None:
            return replace(repeat, body=body), ""
        if repeat.minimum > 0:
            return replace(repeat, body=body), _known(repeat.first) or ("" if repeat.first else start)
        return replace(repeat, body=body), _common(_known(repeat.first), (repeat.empty or "") + following)


def _after_item(repeat: Repeat, between: str, stop: str | None) -> str:
    if stop is None or repeat.over is not None:
        return ""
    return stop if repeat.maximum == 1 else _common(between, stop)


def _known(lead: tuple[Text | ItemNumber, ...]) -> str:
    text = ""
    for segment in lead:
        if isinstance(segment, ItemNumber):
            break
        text += segment.text
    return text


def _common(*texts: str) -> str:
    """What all of them begin with."""
    first, last = min(texts), max(texts)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]
