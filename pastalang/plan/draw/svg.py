"""A plan as an SVG of its lanes: self-contained, the same bytes for the same plan, fit for a slide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from pastalang.plan.branches import PlanData
from pastalang.plan.draw.figures import MOST_ITEMS, Figure, headline_of
from pastalang.plan.draw.grid import Axis, Row, make_axis, make_rows, moments_of, room_on_the_right
from pastalang.plan.draw.lane_canvas import INDENT, MARGIN, LaneCanvas
from pastalang.plan.draw.position_strip import counter_of, lay_strip, paint_strip, position_stretches
from pastalang.plan.draw.shapes import BarShape, Bend, Box, Diamond, Label, Line, Style, place_label
from pastalang.plan.draw.svg_elements import (
    STYLESHEET,
    Sign,
    escape,
    number,
    paint_bar,
    paint_bends,
    paint_chip,
    paint_diamond,
    paint_label,
    paint_line,
    paint_sign,
    rectangle,
    signs_of,
)
from pastalang.plan.draw.text_metrics import text_width
from pastalang.plan.draw.timeline import Timeline
from pastalang.plan.draw.timeline_builder import build_timeline
from pastalang.plan.forecast import ANY, forecast
from pastalang.plan.token_bounds import Lengths

WIDTH = 1280.0
STRIP_WORDS = "of the answer: its text leaves gaps (dashed, with their length), in which the branches below stand"
LANES = 214.0  # where the first lane begins


def draw_svg(plan: PlanData, *, lengths: Lengths = ANY) -> str:
    """The plan as one `<svg>` document."""
    timeline = build_timeline(plan)
    layout = lay_out(timeline, width=WIDTH, top=LANES)
    parts = [*_head(plan, headline_of(timeline, forecast(plan, lengths, most_items=MOST_ITEMS))), *_lanes(layout)]
    bottom = layout.box.bottom + 26
    strip = lay_strip(
        position_stretches(plan, counter_of(lengths)), left=layout.axis.left, right=WIDTH - MARGIN, top=bottom + 30
    )
    if strip:
        parts += [*_text("Positions", Style.SECTION, MARGIN, bottom + 16), *paint_strip(strip)]
        parts += _text(STRIP_WORDS, Style.CAPTION, strip.box.left, bottom + 16)
        bottom = strip.box.bottom + 22
    legend, bottom = _legend(signs_of(timeline), bottom + 14)
    return "\n".join([*_opening(plan, bottom + 22), *parts, *legend, "</svg>", ""])


def _opening(plan: PlanData, height: float) -> Iterator[str]:
    size = f'width="{number(WIDTH)}" height="{number(height)}"'
    box = f'viewBox="0 0 {number(WIDTH)} {number(height)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img">'
    yield f"<title>The plan of {escape(plan.template)}</title>"
    yield f"<style>{STYLESHEET}</style>"
    yield rectangle(Box(0, 0, WIDTH, height), "page")


def _text(text: str, style: Style, left: float, middle: float, room: float = WIDTH - 2 * MARGIN) -> list[str]:
    label = place_label(text, style, left=left, middle=middle, room=room)
    return [paint_label(label)] if label else []


def _head(plan: PlanData, headline: tuple[str, tuple[Figure, ...]]) -> Iterator[str]:
    subtitle, figures = headline
    yield from _text(plan.template, Style.TITLE, MARGIN, 44)
    yield from _text(subtitle, Style.SUBTITLE, MARGIN, 74)
    width = (WIDTH - 2 * MARGIN - 14 * (len(figures) - 1)) / max(1, len(figures))
    for index, figure in enumerate(figures):
        left = MARGIN + index * (width + 14)
        yield rectangle(Box(left, 96, left + width, 158), "tile", round=8)
        yield from _text(figure.value, Style.FIGURE, left + 14, 119, width - 24)
        yield from _text(figure.caption, Style.CAPTION, left + 14, 144, width - 24)


def _lanes(layout: Layout) -> Iterator[str]:
    box, axis = layout.box, layout.axis
    yield from _text("Passes", Style.SECTION, MARGIN, LANES - 22)
    for band in axis.bands:
        if band.right - band.left > 4:
            yield rectangle(Box(band.left, box.top - 4, band.right, box.bottom + 4), "band", round=3)
    for at, x in layout.ticks:
        place = f'x1="{number(x)}" y1="{number(box.top - 10)}" x2="{number(x)}" y2="{number(box.bottom + 4)}"'
        yield f'<line class="grid" {place}/>'
        words = str(at)
        yield from _text(words, Style.TICK, x - text_width(words, 11) / 2, LANES - 20)
    yield from (rectangle(group, "group", round=2) for group in layout.groups)
    yield from (paint_line(line) for line in layout.lines)
    yield from (rectangle(loop, "loop", round=6) for loop in layout.loops)
    yield from (paint_bar(bar) for bar in layout.bars)
    yield paint_bends(layout.bends)
    yield from (paint_diamond(diamond) for diamond in layout.diamonds)
    yield from (paint_chip(chip) for chip in layout.chips)
    yield from (paint_label(label) for label in layout.labels)


def _legend(signs: tuple[Sign, ...], top: float) -> tuple[list[str], float]:
    """In three columns; returns where it ends."""
    parts: list[str] = []
    columns, width = 3, (WIDTH - 2 * MARGIN) / 3
    for index, sign in enumerate(signs):
        left, middle = MARGIN + width * (index % columns), top + 23 * (index // columns)
        parts.append(paint_sign(sign, left, middle))
        parts += _text(sign.value, Style.CAPTION, left + 44, middle, width - 50)
    return parts, top + 23 * ((len(signs) - 1) // columns)


LONGEST_NAME = 230.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The lanes of a drawing. `box` is what they fill; the names are left of the axis."""

    box: Box
    axis: Axis
    labels: tuple[Label, ...]
    chips: tuple[Label, ...]
    bars: tuple[BarShape, ...]
    bends: tuple[Bend, ...]
    lines: tuple[Line, ...]
    diamonds: tuple[Diamond, ...]
    loops: tuple[Box, ...]
    groups: tuple[Box, ...]  # lanes in lock-step
    ticks: tuple[tuple[int, float], ...]


def lay_out(timeline: Timeline, *, width: float, top: float) -> Layout:
    """Every lane below the one before it, in a drawing of this width."""
    rows = make_rows(timeline, top)
    bottom = max((row.box_bottom for row in rows), default=top)
    names = max((text_width(row.lane.title, 13) * 1.06 + INDENT * row.lane.depth for row in rows), default=0.0)
    left = MARGIN + min(LONGEST_NAME, names) + 18
    right = width - MARGIN - room_on_the_right(timeline)
    axis = make_axis(left, right, timeline.passes, moments_of(rows))
    sheet = LaneCanvas(timeline, axis, {(row.lane.branch.id, row.number): row for row in rows}, width - MARGIN)
    sheet.draw_all()
    return Layout(
        box=Box(MARGIN, top, width - MARGIN, bottom),
        axis=axis,
        labels=tuple(sheet.labels),
        chips=tuple(sheet.chips),
        bars=tuple(sheet.bars),
        bends=tuple(sheet.bends),
        lines=tuple(line for line in sheet.lines if line.end - line.start > 2),
        diamonds=tuple(sheet.diamonds),
        loops=tuple(sheet.loops),
        groups=tuple(_groups(rows, left - 10)),
        ticks=tuple(_ticks(axis, timeline.passes)),
    )


def _groups(rows: list[Row], x: float) -> Iterator[Box]:
    """A bracket next to the lanes that are in lock-step with one another."""
    for group, members in groupby(rows, key=lambda row: row.lane.branch.lockstep and row.lane.branch.lockstep.group):
        if group is not None:
            together = list(members)
            yield Box(x, together[0].top + 3, x + 4, together[-1].box_bottom - 3)


def _ticks(axis: Axis, passes: int) -> Iterator[tuple[int, float]]:
    """Round numbers of passes with where they are, far enough apart to be written."""
    step = 1
    for candidate in (m * 10**e for e in range(8) for m in (1, 2, 5)):
        step = candidate
        if passes <= 12 * step:
            break
    places = [(at, axis.leave(at)) for at in range(0, passes + 1, step)]
    places = [*places, *([(passes, axis.leave(passes))] if passes % step else [])]
    last = None
    for here, following in pairwise([*places, (passes + step, float("inf"))]):
        if last is None or (here[1] - last >= 40 and (following[1] - here[1] >= 24 or here[0] == passes)):
            last = here[1]
            yield here
