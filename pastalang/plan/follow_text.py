"""The text that stands behind every hole in the answer, as far as it is known before decoding.

Goes through the answer from its end to its beginning, carrying the known text behind the place where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from pastalang.plan.plan import (
    ROOT,
    Arm,
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
    Segments,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.structure import walk


def with_follow_texts(segments: Mapping[BranchId, Segments]) -> dict[BranchId, Segments]:
    """The same branches with every hole knowing what follows it."""
    placed = {
        segment.branch for written in segments.values() for _, segment in walk(written) if isinstance(segment, Place)
    }
    answer = _Answer(dict(segments), placed)
    answer.branch(ROOT, "")
    return answer.segments


class _Answer:
    """`segments` is filled with the finished branches as the walk passes them."""

    def __init__(self, segments: dict[BranchId, Segments], placed: set[BranchId]) -> None:
        self.segments = segments
        self._placed = placed  # their text stands elsewhere than at their fork

    def branch(self, id: BranchId, behind: str) -> str:
        """The known text at the beginning of the branch, when `behind` stands behind it."""
        self.segments[id], start = self._all(self.segments[id], behind)
        return start

    def _all(self, segments: Segments, behind: str) -> tuple[Segments, str]:
        done: list[Segment] = []
        for segment in reversed(segments):
            finished, behind = self._one(segment, behind)
            done.append(finished)
        return tuple(reversed(done)), behind

    def _one(self, segment: Segment, behind: str) -> tuple[Segment, str]:
        """The finished segment, and the known text at its beginning."""
        match segment:
            case Text(text=text, shown=shown):
                return segment, text + behind if shown else behind
            case Hole():
                return replace(segment, follow=behind), ""
            case Fork(branch=branch) if branch in self._placed:
                return segment, behind
            case Fork(branch=branch) | Place(branch=branch):
                return segment, self.branch(branch, behind)
            case Each(branch=branch):
                self.branch(branch, "")  # the next item or what stands behind the last one: data decides
                return segment, ""
            case Choose():
                return self._choose(segment, behind)
            case Repeat():
                return self._repeat(segment, behind)
            case Join():
                return segment, behind
            case InputText() | ItemNumber() | TurnStart() | TurnEnd():
                return segment, ""
            case _:
                assert_never(segment)

    def _choose(self, choose: Choose, behind: str) -> tuple[Segment, str]:
        arms = []
        for arm in choose.arms:
            segments, _ = self._all(arm.segments, behind)
            arms.append(Arm(arm.label, arm.lead, segments))
        return replace(choose, arms=tuple(arms)), _common(*(arm.lead for arm in choose.arms))

    def _repeat(self, repeat: Repeat, behind: str) -> tuple[Segment, str]:
        stop = None if repeat.stop is None else repeat.stop + behind
        between = _known(repeat.between)
        body, start = self._all(repeat.body, _behind_item(repeat, between, stop))
        if repeat.over is not None or repeat.stop is None:
            return replace(repeat, body=body), ""
        if repeat.minimum > 0:
            return replace(repeat, body=body), _known(repeat.first) or ("" if repeat.first else start)
        return replace(repeat, body=body), _common(_known(repeat.first), (repeat.empty or "") + behind)


def _behind_item(repeat: Repeat, between: str, stop: str | None) -> str:
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
