"""From a timeline to the shapes of its lanes: rows, bars, bends and labels, none of which overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from pastalang.plan.draw.grid import Axis, Row, make_axis, make_rows, moments_of, room_on_the_right
from pastalang.plan.draw.lane_canvas import INDENT, MARGIN, LaneCanvas
from pastalang.plan.draw.shapes import BarShape, Bend, Box, Diamond, Label, Line
from pastalang.plan.draw.text_metrics import text_width
from pastalang.plan.draw.timeline import Timeline

LONGEST_NAME = 230.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The lanes of a drawing. `box` is what they fill; the names stand left of the axis."""

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
    """A bracket beside the lanes that are in lock-step with one another."""
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
