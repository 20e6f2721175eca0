"""The trade-off of speed and quality: reports as points, and their picture.

A line joins the points that no other one beats.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from PIL import Image, ImageDraw, ImageFont

from pastalang.training.errors import BadData
from pastalang.training.likelihood import Interval

_WIDTH, _HEIGHT = 1280, 800
_LEFT, _RIGHT, _TOP, _BOTTOM = 130, 60, 90, 110
_INK, _GREY, _BEST, _OTHER = "#222222", "#dddddd", "#0b6e4f", "#8a8a8a"
_LINES: Final = 5  # of the grid in each direction, about
_Axis: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """`speed` is the theoretical speed-up; `quality_of` says what `quality` is, between 0 and 1."""

    name: str
    speed: float
    speed_interval: Interval
    quality_of: str
    quality: float
    quality_interval: Interval


def point_of(name: str, report: Mapping[str, Any]) -> Point:
    """Of a report as data. Raises `BadData` for what is not one."""
    try:
        point = Point(
            name, float(report["theoretical"]), _interval(report["theoretical_interval"]), str(report["quality_of"]),
            float(report["quality"]), _interval(report["quality_interval"]),
        )  # fmt: skip
        if not all(map(math.isfinite, (point.speed, *point.speed_interval, point.quality, *point.quality_interval))):
            raise ValueError("a figure is not finite")
        return point
    except (KeyError, TypeError, ValueError) as problem:
        raise BadData(f"{name} is not a report of `pasta evaluate threads --out`") from problem


def best_of(points: Sequence[Point]) -> list[Point]:
    """The points that no other one beats in one of the two and equals in the other, from slow to fast."""
    best = [one for one in points if not any(_beats(other, one) for other in points)]
    return sorted(best, key=lambda one: (one.speed, one.quality))


def _beats(one: Point, other: Point) -> bool:
    at_least = one.speed >= other.speed and one.quality >= other.quality
    return at_least and (one.speed, one.quality) != (other.speed, other.quality)


def _interval(found: Any) -> Interval:
    low, high = found
    return float(low), float(high)


def draw(points: Sequence[Point]) -> bytes:
    """A PNG. Raises `BadData` if the points do not measure the same quality."""
    kinds: dict[str, list[str]] = {}
    for one in points:
        kinds.setdefault(one.quality_of, []).append(one.name)
    if len(kinds) > 1:
        shown = "; ".join(f"{kind} of {', '.join(names)}" for kind, names in kinds.items())
        raise BadData(f"the reports measure different things: {shown}. Measure all with the same --score or --judge")
    picture = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    across = _axis_of([x for one in points for x in (one.speed, *one.speed_interval)])
    up = _axis_of([y for one in points for y in (one.quality, *one.quality_interval)])
    _Drawing(ImageDraw.Draw(picture), across, up).draw(points, next(iter(kinds)))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def _axis_of(values: Sequence[float]) -> _Axis:
    """With some room on both sides, also if all values are the same."""
    low, high = min(values), max(values)
    room = (high - low) * 0.12 or max(abs(high), 1.0) * 0.05
    return low - room, high + room


def _ticks(axis: _Axis) -> list[float]:
    """Round numbers within an axis."""
    low, high = axis
    rough = (high - low) / _LINES
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    return [round(number * step, 9) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


@dataclass(frozen=True)
class _Drawing:
    pen: ImageDraw.ImageDraw
    across: _Axis
    up: _Axis

    def draw(self, points: Sequence[Point], quality: str) -> None:
        self._text(_LEFT, 18, "Speed and quality of answers with threads", size=30)
        self._text(_LEFT, _HEIGHT - 48, "across: theoretical speed-up, with 95 % intervals")
        self._text(_LEFT, 58, f"up: {quality}")
        self._grid()
        best = best_of(points)
        self.pen.line([self._place(one.speed, one.quality) for one in best], fill=_BEST, width=3)
        for one in points:
            self._point(one, _BEST if one in best else _OTHER)

    def _grid(self) -> None:
        left, bottom = _LEFT, _HEIGHT - _BOTTOM
        for speed in _ticks(self.across):
            x, _ = self._place(speed, self.up[0])
            self.pen.line([(x, _TOP), (x, bottom)], fill=_GREY)
            self._text(x - 20, bottom + 10, f"{speed:g}x")
        for quality in _ticks(self.up):
            _, y = self._place(self.across[0], quality)
            self.pen.line([(left, y), (_WIDTH - _RIGHT, y)], fill=_GREY)
            self._text(30, y - 12, f"{100 * quality:g} %")

    def _point(self, one: Point, colour: str) -> None:
        x, y = self._place(one.speed, one.quality)
        self.pen.line([self._place(speed, one.quality) for speed in one.speed_interval], fill=colour, width=2)
        self.pen.line([self._place(one.speed, quality) for quality in one.quality_interval], fill=colour, width=2)
        self.pen.ellipse([x - 8, y - 8, x + 8, y + 8], fill=colour)
        self._text(x + 14, y - 34, one.name, colour=colour)

    def _place(self, speed: float, quality: float) -> tuple[float, float]:
        across, up = ((value - low) / (high - low) for value, (low, high) in ((speed, self.across), (quality, self.up)))
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    def _text(self, x: float, y: float, text: str, *, size: int = 20, colour: str = _INK) -> None:
        self.pen.text((x, y), text, fill=colour, font=ImageFont.load_default(size))
