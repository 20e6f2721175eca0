"""What a drawing is made of, in pixels: boxes, labels, bars, bends. Nothing here knows of plans."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from pastalang.plan.draw.text_metrics import ellipsise, printable, text_width


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    def overlaps(self, other: Box) -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


class Colour(StrEnum):
    """The colours that the pictures share. The SVG has more, in the style sheet of `svg_elements`."""

    BAR = "#dbe7fd"
    BAR_EDGE = "#5b86dd"
    CRITICAL = "#ffe3bf"  # on the longest path
    CRITICAL_EDGE = "#e08a1e"
    FORK = "#8594aa"
    JOIN = "#0f9d76"


class Style(Enum):
    """How a label is written: class name, size in pixels, whether in a monospaced font."""

    TITLE = ("title", 28.0, False)
    SUBTITLE = ("subtitle", 14.0, False)
    FIGURE = ("figure", 24.0, False)
    CAPTION = ("caption", 12.0, False)
    SECTION = ("section", 14.0, False)
    NAME = ("name", 13.0, False)
    WORDS = ("words halo", 11.5, True)
    CHIP = ("chip", 11.0, False)
    VALUE = ("value", 11.5, False)  # inside a bar
    TYPE = ("type halo", 11.5, False)  # next to a bar
    LIMIT = ("limit", 11.5, False)
    TIMES = ("times halo", 11.5, False)
    TICK = ("tick", 11.0, False)

    @property
    def css(self) -> str:
        return self.value[0]

    @property
    def size(self) -> float:
        return self.value[1]

    @property
    def mono(self) -> bool:
        return self.value[2]


@dataclass(frozen=True, slots=True)
class Label:
    """`text` fits into the box; `full` is what it was before it was made to fit."""

    box: Box
    text: str
    full: str
    style: Style


@dataclass(frozen=True, slots=True)
class BarShape:
    """`pale` are the stretches (left, right) in which no time passes. A ghost is a later item of a loop."""

    box: Box
    pale: tuple[tuple[float, float], ...]
    critical: bool
    ghost: bool
    tip: str


@dataclass(frozen=True, slots=True)
class Bend:
    """Down or up at `spine`, then rightwards to the end: a fork, or (joins) a wait that is over."""

    start: tuple[float, float]
    spine: float
    end: tuple[float, float]
    joins: bool


@dataclass(frozen=True, slots=True)
class Line:
    start: float
    end: float
    y: float
    waits: bool


@dataclass(frozen=True, slots=True)
class Diamond:
    """A choice."""

    x: float
    y: float
    critical: bool
    tip: str


def place_label(
    text: str, style: Style, *, left: float, middle: float, room: float, from_right: bool = False
) -> Label | None:
    """A label on the line `middle`; with `from_right`, `left` is where it ends. None: no room for any of it."""
    full = printable(text)
    shown = ellipsise(full, room, style.size, mono=style.mono)
    if not shown:
        return None
    width = text_width(shown, style.size, mono=style.mono)
    start = left - width if from_right else left
    half = style.size * 0.62
    return Label(Box(start, middle - half, start + width, middle + half), shown, full, style)
