"""Draw a line chart as SVG. Both axes are logarithmic, to the base 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log2

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 40, 50
COLOURS = ("#0b6e4f", "#c1440e", "#4a5899", "#8a8a8a")

Points = Sequence[tuple[float, float]]


def line_chart(title: str, series: Mapping[str, Points], *, across: str, up: str) -> str:
    """Each series is a line with a dot for each point and its name at the right end."""
    xs = [log2(x) for points in series.values() for x, _ in points]
    ys = [log2(y) for points in series.values() for _, y in points]
    low, high = floor(min(ys)), max(ceil(max(ys)), floor(min(ys)) + 1)
    first, last = min(xs), max(max(xs), min(xs) + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + wide * (log2(x) - first) / (last - first), TOP + tall * (high - log2(y)) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, title, size=14),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, across, anchor="middle"),
        _text(14, TOP - 8, up),
    ]
    for power in range(low, high + 1):
        _, y = place(2**first, 2**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(2.0**power), anchor="end"))
    for x in sorted({x for points in series.values() for x, _ in points}):
        parts.append(_text(place(x, 2**low)[0], HEIGHT - BOTTOM + 18, _number(x), anchor="middle"))
    for (name, points), colour in zip(series.items(), COLOURS, strict=False):
        parts += _line(name, [place(x, y) for x, y in points], colour)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(name: str, places: Sequence[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    x, y = places[-1]
    label = _text(x + 8, y + 4, name, colour=colour)
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots, label]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{text}</text>'


def _number(value: float) -> str:
    return f"{value:g}"


BAR, NAMES = 22, 300  # the height of a bar, and the width of the names before them


def bar_chart(title: str, values: Mapping[str, float], *, unit: str, ours: Sequence[str] = ()) -> str:
    """A bar for each value, in the given order; those of `ours` have a colour of their own."""
    height, wide = TOP + BAR * len(values) + 10, WIDTH - NAMES - 90
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(10, 22, title, size=14),
    ]
    for row, (name, value) in enumerate(values.items()):
        y, long = TOP + BAR * row, wide * value / max(values.values())
        colour = COLOURS[0] if name in ours else COLOURS[-1]
        parts.append(_text(NAMES - 8, y + BAR - 8, name.replace("`", ""), anchor="end"))
        parts.append(f'<rect x="{NAMES}" y="{y + 3}" width="{long:.1f}" height="{BAR - 6}" fill="{colour}"/>')
        parts.append(_text(NAMES + long + 6, y + BAR - 8, f"{value:.2f} {unit}"))
    return "\n".join([*parts, "</svg>"]) + "\n"
