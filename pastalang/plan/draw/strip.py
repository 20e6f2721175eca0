"""From a plan to the strip of positions: where the branch with the most forks leaves gaps, and what fills them."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.plan.draw.describe import describe_words
from pastalang.plan.draw.measure import text_width
from pastalang.plan.draw.paint import paint_label, rectangle
from pastalang.plan.draw.shapes import Box, Label, Style, place_label
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
from pastalang.program.program import Role

CHARACTERS_PER_TOKEN = 4
SHOWN_ITEMS = 3
TALLEST = 8  # rows of overlapping branches


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions `[start, end)`. A gap is left for a branch; `reach` is how far the branch can go."""

    start: int
    end: int
    name: str
    kind: str  # "fed", "bar", "gap"
    reach: int = 0


@dataclass(frozen=True, slots=True)
class Strip:
    box: Box
    rectangles: tuple[tuple[Box, str, str], ...]  # with their class and tip
    labels: tuple[Label, ...]


def stretches_of(plan: Plan) -> tuple[Stretch, ...]:
    """Along the branch that forks most, from the beginning of the answer; forced text is counted by its length."""
    branch = max(plan.branches, key=lambda each: (_forks(each.segments), -each.id))
    walk = _Along(plan)
    walk.go(_answer(branch.segments))
    return tuple(walk.stretches)


def lay_strip(plan: Plan, *, left: float, right: float, top: float) -> Strip | None:
    """None where nothing is forked: positions then simply count."""
    stretches = stretches_of(plan)
    gaps = [each for each in stretches if each.kind == "gap"]
    if not gaps:
        return None
    end = max(max(each.end, each.reach) for each in stretches)
    scale = (right - left) / max(1, end)
    pen = _Pen(left, scale, top + 14)
    for stretch in stretches:
        pen.draw(stretch)
    pen.ticks(end, right)
    return Strip(Box(left, top, right, pen.bottom), tuple(pen.rectangles), tuple(pen.labels))


def paint_strip(strip: Strip) -> list[str]:
    shapes = [rectangle(box, kind, round=3 if "fed" not in kind else 0, tip=tip) for box, kind, tip in strip.rectangles]
    return [*shapes, *(paint_label(label) for label in strip.labels)]


class _Along:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.at = 0
        self.stretches: list[Stretch] = []
        self.reaches: dict[BranchId, int] = {}

    def go(self, segments: tuple[Segment, ...]) -> None:
        for segment in segments:
            match segment:
                case Text() | InputText() | ItemNumber():
                    words = describe_words((segment,))
                    self._add(max(1, len(words) // CHARACTERS_PER_TOKEN), words, "fed")
                case Hole():
                    self._add(segment.max_tokens, segment.field, "bar")
                case Fork():
                    self._gap(segment.branch, 1)
                case Each():
                    self._gap(segment.branch, segment.maximum)
                case Choose():
                    longest = max(segment.arms, key=lambda arm: len(arm.segments))
                    self._add(1, " or ".join(arm.label for arm in segment.arms), "bar")
                    self.go(longest.segments)
                case Repeat():
                    for _ in range(min(segment.maximum, SHOWN_ITEMS)):
                        self.go(segment.body)
                case Join() if self.plan.branch(ROOT).overrun is not Overrun.PAPER:
                    self.at = max([self.at, *(self.reaches.get(branch, 0) for branch in segment.branches)])
                case _:
                    pass

    def _add(self, length: int, name: str, kind: str) -> None:
        self.stretches.append(Stretch(self.at, self.at + length, name, kind))
        self.at += length

    def _gap(self, id: BranchId, times: int) -> None:
        child = self.plan.branches[id]
        room = child.reserve * times
        reach = self.at + _length(self.plan, child.segments)
        self.reaches[child.id] = max(reach, self.reaches.get(child.id, 0))
        self.stretches.append(Stretch(self.at, self.at + room, child.name, "gap", reach))
        self.at += room


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
            case "gap":
                if end > start:
                    tip = f"{stretch.name}: {stretch.end - stretch.start} positions left free"
                    self.rectangles.append((Box(start, self.y - 8, end, self.y + 8), "gap", tip))
                    self._label(str(stretch.end - stretch.start), Style.LIMIT, start, end, self.y)
                self._child(stretch, start)
            case "bar":
                self.rectangles.append((Box(start, self.y - 8, end, self.y + 8), "bar", stretch.name))
                self._label(stretch.name, Style.VALUE, start, end, self.y)
            case _:
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


def _length(plan: Plan, segments: tuple[Segment, ...]) -> int:
    walk = _Along(plan)
    walk.go(segments)
    return walk.at
