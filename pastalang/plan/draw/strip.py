"""From stretches of positions to a strip: gaps on the line, and below it the branches that fill them."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.plan.draw.shapes import Box, Label, Style, place_label
from pastalang.plan.draw.stretches import Kind, Stretch
from pastalang.plan.draw.svg_elements import paint_label, rectangle
from pastalang.plan.draw.text_metrics import text_width

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
                    tip = f"{stretch.name}: {stretch.end - stretch.start} positions left free"
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
