"""The strip of positions below a drawing: gaps on the line, and below it the branches that fill them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pastalang.plan.branches import (
    ROOT,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    Join,
    KnownText,
    Overrun,
    PlanData,
    Repeat,
    Segments,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.draw.captions import describe_words
from pastalang.plan.draw.shapes import Box, Label, Style, place_label
from pastalang.plan.draw.svg_elements import paint_label, rectangle
from pastalang.plan.draw.text_metrics import text_width
from pastalang.plan.structure import walk
from pastalang.plan.token_bounds import Lengths
from pastalang.program.program import Role
from pastalang.values.describe import counted

CHARACTERS_PER_TOKEN = 4
LENGTH_OF_DATA = 2  # unknown before the run
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


def position_stretches(plan: PlanData, count: Count = estimate) -> tuple[Stretch, ...]:
    """Along the branch that forks most, from the beginning of the answer."""
    branch = max(plan.branches, key=lambda each: (_forks(each.segments), -each.id))
    walk = _Along(plan, count)
    walk.go(_answer(branch.segments))
    return tuple(walk.stretches)


class _Along:
    def __init__(self, plan: PlanData, count: Count) -> None:
        self.plan = plan
        self.count = count
        self.at = 0
        self.stretches: list[Stretch] = []
        self.reaches: dict[BranchId, int] = {}

    def go(self, segments: Segments) -> None:
        for segment in segments:
            match segment:
                case Text(text):
                    self._add(self.count(text), describe_words((segment,)), Kind.FED)
                case _ if isinstance(segment, KnownText):
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


def _answer(segments: Segments) -> Segments:
    """The segments after the start of the model's last turn."""
    opened = [i for i, each in enumerate(segments) if isinstance(each, TurnStart) and each.role is Role.ASSISTANT]
    return tuple(each for each in segments[opened[-1] + 1 if opened else 0 :] if not isinstance(each, TurnEnd))


def _forks(segments: Segments) -> int:
    return sum(isinstance(segment, Fork | Each) for _, segment in walk(segments))


def _length(around: _Along, segments: Segments) -> int:
    walk = _Along(around.plan, around.count)
    walk.go(segments)
    return walk.at


TALLEST = 8  # rows of overlapping branches


@dataclass(frozen=True, slots=True)
class Strip:
    box: Box
    rectangles: tuple[tuple[Box, str, str], ...]  # with their class and tip
    labels: tuple[Label, ...]


def lay_strip(stretches: tuple[Stretch, ...], *, left: float, right: float, top: float) -> Strip | None:
    """None where nothing is forked: positions then simply count."""
    if not any(each.kind is Kind.GAP for each in stretches):
        return None
    end = max(max(each.end, each.reach) for each in stretches)
    pen = _Pen(left, (right - left) / max(1, end), top + 14)
    for stretch in stretches:
        pen.draw(stretch)
    pen.ticks(end, right)
    return Strip(Box(left, top, right, pen.bottom), tuple(pen.rectangles), tuple(pen.labels))


def paint_strip(strip: Strip) -> list[str]:
    shapes = [rectangle(box, kind, round=3 if "fed" not in kind else 0, tip=tip) for box, kind, tip in strip.rectangles]
    return [*shapes, *(paint_label(label) for label in strip.labels)]


class _Pen:
    """Puts stretches on the line, and the branches that fill the gaps below it."""

    def __init__(self, left: float, scale: float, y: float) -> None:
        self.left, self.scale, self.y = left, scale, y
        self.rows: list[float] = []
        self.rectangles: list[tuple[Box, str, str]] = []
        self.labels: list[Label] = []

    @property
    def bottom(self) -> float:
        return self.y + 14 + 22 * max(1, len(self.rows)) + 18

    def draw(self, stretch: Stretch) -> None:
        start, end = self.left + self.scale * stretch.start, self.left + self.scale * stretch.end
        match stretch.kind:
            case Kind.GAP:
                if end > start:
                    tip = f"{stretch.name}: {counted(stretch.end - stretch.start, 'position')} left free"
                    self.rectangles.append((Box(start, self.y - 8, end, self.y + 8), "gap", tip))
                    self._label(str(stretch.end - stretch.start), Style.LIMIT, start, end, self.y)
                self._child(stretch, start)
            case Kind.BAR:
                self.rectangles.append((Box(start, self.y - 8, end, self.y + 8), "bar", stretch.name))
                self._label(stretch.name, Style.VALUE, start, end, self.y)
            case Kind.FED:
                self.rectangles.append((Box(start, self.y - 1.5, end, self.y + 1.5), "fed", stretch.name))

    def _child(self, stretch: Stretch, start: float) -> None:
        end = max(start + 2, self.left + self.scale * stretch.reach)
        row = next((index for index, used in enumerate(self.rows) if used <= start + 1.5), len(self.rows))
        if row >= TALLEST:
            return
        self.rows[row : row + 1] = [end + 1]
        y = self.y + 25 + 22 * row
        self.rectangles.append((Box(start, y - 8, end, y + 8), "bar", stretch.name))
        self._label(stretch.name, Style.VALUE, start, end, y)

    def _label(self, text: str, style: Style, start: float, end: float, y: float) -> None:
        width = text_width(text, style.size)
        if width + 6 <= end - start:
            label = place_label(text, style, left=(start + end - width) / 2, middle=y, room=width + 1)
            if label:
                self.labels.append(label)

    def ticks(self, end: int, right: float) -> None:
        y = self.bottom - 8
        for at, x in ((0, self.left), (end, right - text_width(str(end), 11))):
            label = place_label(str(at), Style.TICK, left=x, middle=y, room=80)
            if label:
                self.labels.append(label)
