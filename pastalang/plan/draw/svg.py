"""A plan as an SVG of its lanes: self-contained, the same bytes for the same plan, fit for a slide.

Across, a pass has the same width everywhere. In front of every bar there is a gutter, in which the lines of forks and
joins go up and down. Down, every lane has a row, and one more for each further arm of a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import groupby

from pastalang.plan.branches import BranchId, PlanData
from pastalang.plan.draw.text_metrics import ellipsise, printable, text_width
from pastalang.plan.draw.timeline import (
    MOST_ITEMS,
    Bar,
    Chosen,
    Forked,
    Joined,
    Lane,
    Looped,
    Timeline,
    build_timeline,
    busiest,
    describe_plan,
    measured_with,
)
from pastalang.plan.forecast import ANY, Forecast, forecast
from pastalang.plan.token_bounds import Lengths
from pastalang.values.describe import caption, counted

WIDTH, MARGIN = 1280.0, 40.0
TOP = 214.0  # where the first row begins
GUTTER = 8.0
INDENT = 14.0
LONGEST_NAME = 230.0
LONGEST_TIP = 400

SIZES = {"title": 28.0, "subtitle": 14.0, "figure": 24.0, "caption": 12.0, "section": 14.0, "name": 13.0, "tick": 11.0}
SIZES |= {"value": 11.5, "words": 11.5, "times": 11.5}
_RULES = f"""
text {{ font-family: Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; }}
{" ".join(f".{kind} {{ font-size: {size:g}px; }}" for kind, size in SIZES.items())}
text {{ fill: #1f2937; }}
.title, .figure, .section {{ font-weight: 700; }}
.name, .times {{ font-weight: 600; }}
.subtitle, .caption {{ fill: #6b7280; }}
.tick {{ fill: #9ca3af; }}
.times {{ fill: #7c3aed; }}
.words, .times {{ paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }}
.page {{ fill: #ffffff; }}
.tile {{ fill: #f8fafc; stroke: #e5e7eb; }}
.grid {{ stroke: #e5e7eb; }}
.bar {{ fill: #dbe7fd; stroke: #5b86dd; }}
.critical {{ fill: #ffe3bf; stroke: #e08a1e; }}
.later {{ fill: #dbe7fd; fill-opacity: 0.4; stroke: #a78bfa; stroke-dasharray: 5 4; }}
.lane {{ stroke: #94a3b8; stroke-width: 2; }}
.wait {{ stroke: #0f9d76; stroke-width: 1.8; stroke-dasharray: 1.5 4.5; stroke-linecap: round; }}
.under {{ fill: none; stroke: #ffffff; stroke-width: 5; }}
.fork {{ fill: none; stroke: #8594aa; stroke-width: 1.6; }}
.join {{ fill: none; stroke: #0f9d76; stroke-width: 1.8; }}
.forkdot {{ fill: #8594aa; }}
.joindot {{ fill: #0f9d76; }}
.choice {{ fill: #ede9fe; stroke: #7c3aed; }}
.group {{ fill: #0891b2; }}
""".strip()
SCOPE = "pasta-plan"  # a page that holds the drawing has texts and classes of its own
STYLESHEET = re.sub(r"[^\s,{}][^,{}]*(?=[^{}]*\{)", rf".{SCOPE} \g<0>", _RULES)


def draw_svg(plan: PlanData, *, lengths: Lengths = ANY) -> str:
    """The plan as one `<svg>` document."""
    timeline = build_timeline(plan)
    canvas = _Canvas(timeline)
    canvas.draw()
    legend, bottom = _legend(timeline, canvas.bottom + 40)
    head = _head(timeline, forecast(plan, lengths, most_items=MOST_ITEMS))
    width, height = f"{WIDTH:g}", f"{bottom + 22:g}"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    opening = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{SCOPE}" {size} role="img">',
        f"<title>The plan of {_safe(plan.template)}</title>",
        f"<style>{STYLESHEET}</style>",
        _rectangle("page", 0, 0, WIDTH, bottom + 22),
    ]
    return "\n".join([*opening, *head, *canvas.parts(), *legend, "</svg>", ""])


def _head(timeline: Timeline, cost: Forecast) -> Iterator[str]:
    plan = timeline.plan
    yield _text("title", plan.template, MARGIN, 44)
    yield _text("subtitle", f"{describe_plan(timeline)} · {measured_with(plan)}", MARGIN, 74)
    figures = (
        (f"{cost.passes.high:,}", "forward passes, at most"),
        (f"{cost.speed_up:,.1f}×", f"fewer than {cost.draws.high:,} in a row"),
        (f"{busiest(cost.longest):,}", "tokens in the busiest pass"),
        (f"{cost.peak_cells.high:,}", "tokens in memory at the peak"),
        (f"{cost.highest_position.high:,}", "the highest position"),
    )
    width = (WIDTH - 2 * MARGIN - 14 * (len(figures) - 1)) / len(figures)
    for index, (value, words) in enumerate(figures):
        left = MARGIN + index * (width + 14)
        yield _rectangle("tile", left, 96, width, 62, round=8)
        yield _text("figure", value, left + 14, 119, width - 24)
        yield _text("caption", words, left + 14, 144, width - 24)


def _legend(timeline: Timeline, top: float) -> tuple[list[str], float]:
    """What occurs of these, in three columns; returns where it ends."""
    bars, events = timeline.bars, [event for lane in timeline.lanes for event in lane.events]
    loops = any(lane.loops for lane in timeline.lanes) or any(isinstance(event, Looped) for event in events)
    waits = any(isinstance(event, Joined) and event.start < event.at for event in events)
    signs = (
        ("bar", "a value being decoded: as long as its token limit", any(not bar.critical for bar in bars)),
        ("bar critical", "on the longest path: it decides the number of passes", any(bar.critical for bar in bars)),
        ("fork", "a branch begins: it sees what is left of here", any(isinstance(event, Forked) for event in events)),
        ("join", "a join: waits for these and sees them", any(isinstance(event, Joined) for event in events)),
        ("wait", "waiting", waits),
        ("choice", "the model chooses how to go on", any(isinstance(event, Chosen) for event in events)),
        ("later", "a loop ×(least..most items)", loops),
        ("group", "lock-step: token k also sees tokens 1..k above it", any(map(_group_of, timeline.lanes))),
    )
    shown = [(kind, words) for kind, words, occurs in signs if occurs]
    parts, width = [], (WIDTH - 2 * MARGIN) / 3
    for index, (kind, words) in enumerate(shown):
        left, middle = MARGIN + width * (index % 3), top + 23 * (index // 3)
        parts += [_sign(kind, left, middle), _text("caption", words, left + 44, middle, width - 50)]
    return parts, top + 23 * ((len(shown) - 1) // 3)


def _sign(kind: str, x: float, y: float) -> str:
    match kind:
        case "fork" | "join":
            return _bend(kind, x + 10, y - 7 if kind == "fork" else y + 7, x + 34, y + 7 if kind == "fork" else y - 7)
        case "wait":
            return _line(kind, x + 2, x + 34, y)
        case "choice":
            return _diamond(x + 17, y, words="a choice")
        case "group":
            return _rectangle(kind, x + 15, y - 8, 4, 16, round=2)
        case _:
            return _rectangle(kind, x, y - 6, 34, 12, round=4)


@dataclass(slots=True)
class _Canvas:
    """The rows of a drawing, in layers: what is drawn later lies on top."""

    timeline: Timeline
    left: float = 0.0  # where the first pass begins
    scale: float = 0.0  # the width of a pass
    height: float = 30.0  # of a row
    rows: dict[tuple[BranchId, int], float] = field(default_factory=dict)  # the middle of each
    lines: list[str] = field(default_factory=list)
    bars: list[str] = field(default_factory=list)
    bends: list[tuple[str, float, float, float, float]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    @property
    def bottom(self) -> float:
        return TOP + self.height * len(self.rows)

    def x(self, at: int) -> float:
        return self.left + self.scale * at

    def draw(self) -> None:
        lanes = self.timeline.lanes
        count = sum(lane.rows for lane in lanes)
        self.height = 30.0 if count <= 30 else 24.0 if count <= 100 else 20.0
        for lane in lanes:
            for row in range(lane.rows):
                self.rows[lane.branch.id, row] = TOP + self.height * (len(self.rows) + 0.5)
        names = max(text_width(lane.title, 13) * 1.06 + INDENT * lane.depth for lane in lanes)
        self.left = MARGIN + min(LONGEST_NAME, names) + 24
        self.scale = (WIDTH - MARGIN - self.left) / max(1, self.timeline.passes)
        self._ticks()
        self._groups()
        ends = {lane.branch.id: lane.last_end for lane in lanes}
        for lane in lanes:
            self._lane(lane, ends)

    def parts(self) -> list[str]:
        """The white lines below all bends show that they pass over what they cross."""
        under = [f'<path class="under" d="{_path(*bend[1:])}"/>' for bend in self.bends]
        return [*self.lines, *self.bars, *under, *(_bend(*bend) for bend in self.bends), *self.labels]

    def _ticks(self) -> None:
        """Round numbers of passes, far enough from the last one to be read."""
        passes = self.timeline.passes
        step = next(m * 10**e for e in range(12) for m in (1, 2, 5) if passes <= 12 * m * 10**e)
        self.labels.append(_text("section", "Passes", MARGIN, TOP - 22))
        for at in [*(at for at in range(0, passes, step) if self.x(passes) - self.x(at) >= 24), passes]:
            x = f"{self.x(at):.1f}"
            self.lines.append(f'<path class="grid" d="M{x} {TOP - 10:g}V{self.bottom + 4:g}"/>')
            self.labels.append(_text("tick", str(at), self.x(at) - text_width(str(at), 11) / 2, TOP - 20))

    def _groups(self) -> None:
        """A bracket next to the lanes that are in lock-step with one another."""
        for group, members in groupby(self.timeline.lanes, key=_group_of):
            if group:
                rows = [self.rows[lane.branch.id, row] for lane in members for row in range(lane.rows)]
                height = rows[-1] - rows[0] + self.height - 6
                self.lines.append(
                    _rectangle("group", self.left - 14, rows[0] - self.height / 2 + 3, 4, height, round=2)
                )

    def _lane(self, lane: Lane, ends: dict[BranchId, int]) -> None:
        middle = self.rows[lane.branch.id, 0]
        indent = MARGIN + INDENT * lane.depth
        self.labels.append(_text("name", lane.title, indent, middle, self.left - 24 - indent))
        self.lines.append(_line("lane", self.x(lane.start) + 2, self.x(lane.end), middle))
        if lane.loops and lane.bars:
            self._bar("later", lane.start, lane.last_end, middle, taller=3)
        for event in lane.events:
            y, x = self.rows[lane.branch.id, event.row], self.x(event.at if isinstance(event, Forked | Joined) else 0)
            match event:
                case Forked(branch=branch):
                    self.bends.append(("fork", x + 2, y, x + GUTTER, self.rows[branch, 0]))
                case Joined(branches=branches, start=start, at=at):
                    self._wait(start, at, y)
                    for branch in branches:
                        self._wait(ends[branch], at, self.rows[branch, 0])
                        self.bends.append(("join", x + 5, self.rows[branch, 0], x + GUTTER, y))
                case Chosen(labels=labels, start=start):
                    self.labels.append(_diamond(self.x(start) + GUTTER, y, words=" or ".join(labels)))
                case Looped(start=start, end=end):
                    self._bar("later", start, end, y, taller=3)
                case Bar():
                    kind = "bar critical" if event.critical else "bar"
                    limit = counted(event.hole.max_tokens, "token")
                    tip = f"{event.hole.field}: {caption(event.hole.type)}, at most {limit}"
                    self._bar(kind, event.start, event.end, y, tip=tip)
        for row in range(lane.rows):
            self._label_row(lane, row)

    def _bar(self, kind: str, start: int, end: int, middle: float, *, taller: float = 0.0, tip: str = "") -> None:
        half = min(9.5, self.height / 2 - 2.5) + taller
        left, right = self.x(start) + GUTTER - taller, self.x(end) + taller
        layer = self.bars if tip else self.lines
        layer.append(_rectangle(kind, left, middle - half, max(3.0, right - left), 2 * half, round=4, tip=tip))

    def _wait(self, start: int, end: int, y: float) -> None:
        if start < end:
            self.lines += [_line("under", self.x(start), self.x(end), y), _line("wait", self.x(start), self.x(end), y)]

    # ── labels ───────────────────────────────────────────────────────────────────────────────────────────

    def _label_row(self, lane: Lane, row: int) -> None:
        """What does not fit into a bar stands behind it, or in front of it where there is more room."""
        bars = sorted((bar for bar in lane.bars if bar.row == row), key=lambda bar: bar.start)
        loops = [event for event in lane.events if isinstance(event, Looped) and event.row == row]
        middle, taken = self.rows[lane.branch.id, row], self.left
        marks = [
            (self.x(bar.start) + GUTTER, self.x(bar.end), self._outside(lane, bar, middle), "words") for bar in bars
        ]
        marks += [(self.x(loop.end),) * 2 + (str(loop.copies), "times") for loop in loops]
        if lane.times and row == 0:
            end = self.x(lane.last_end if lane.loops else lane.end)
            marks.append((end, end, lane.times, "times"))
        marks.sort()
        limits = [*(mark[0] for mark in marks), WIDTH - MARGIN][1:]
        for (left, right, words, kind), limit in zip(marks, limits, strict=True):
            right, width = max(right, taken), text_width(words[:LONGEST_TIP], SIZES[kind])
            behind, before = limit - right - 14, left - taken - 14
            if words and (width <= behind or behind >= before):
                self.labels.append(_text(kind, words, right + 8, middle, behind))
                right += min(width, max(0.0, behind)) + 8
            elif words:
                self.labels.append(_text(kind, words, left - 8 - min(width, before), middle, before))
            taken = right

    def _outside(self, lane: Lane, bar: Bar, middle: float) -> str:
        """Writes what fits into the bar; returns the rest."""
        tokens = str(bar.hole.max_tokens)
        left, right = self.x(bar.start) + GUTTER + 6, self.x(bar.end) - 6
        words, limit_width = lane.words(bar), text_width(tokens, SIZES["value"])
        if text_width(words[:LONGEST_TIP], SIZES["value"]) + 8 + limit_width > right - left:
            return f"{words} · {tokens}"
        self.labels.append(_text("value", words, left, middle))
        self.labels.append(_text("value", tokens, right - limit_width, middle))
        return ""


def _group_of(lane: Lane) -> str:
    return f"group {lane.branch.lockstep.group}" if lane.branch.lockstep else ""


# ── elements ─────────────────────────────────────────────────────────────────────────────────────────────


def _safe(text: str) -> str:
    """On one line, and not longer than anybody reads in a tip."""
    shown = printable(text[: 2 * LONGEST_TIP])
    return escape(shown if len(shown) <= LONGEST_TIP else shown[: LONGEST_TIP - 1] + "…", quote=True)


def _text(kind: str, text: str, left: float, middle: float, room: float = WIDTH - 2 * MARGIN) -> str:
    """As much of the text as there is room for; maybe nothing at all."""
    size, full = SIZES[kind], printable(text)
    shown = ellipsise(full, room, size)
    tip = f"<title>{_safe(full)}</title>" if shown != full else ""
    place = f'x="{left:.1f}" y="{middle + size * 0.35:.1f}"'
    return f'<text class="{kind}" {place}>{tip}{_safe(shown)}</text>' if shown else ""


def _rectangle(
    kind: str, left: float, top: float, width: float, height: float, *, round: float = 0.0, tip: str = ""
) -> str:
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round:g}"'
    return (
        f'<rect class="{kind}" {place}><title>{_safe(tip)}</title></rect>' if tip else f'<rect class="{kind}" {place}/>'
    )


def _line(kind: str, start: float, end: float, y: float) -> str:
    return f'<path class="{kind}" d="M{start:.1f} {y:.1f}H{end:.1f}"/>' if end > start else ""


def _diamond(x: float, y: float, *, words: str) -> str:
    corners = f"M{x - 6:.1f} {y:.1f}L{x:.1f} {y - 6:.1f}L{x + 6:.1f} {y:.1f}L{x:.1f} {y + 6:.1f}Z"
    return f'<path class="choice" d="{corners}"><title>{_safe(words)}</title></path>'


def _bend(kind: str, x: float, y: float, to_x: float, to_y: float) -> str:
    dot = f'<circle class="{kind}dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    return f'<path class="{kind}" d="{_path(x, y, to_x, to_y)}"/>{dot}'


def _path(x: float, y: float, to_x: float, to_y: float) -> str:
    """Down or up, then to the right."""
    turn = min(to_x - x, abs(to_y - y))
    before = to_y - turn if to_y > y else to_y + turn
    return f"M{x:.1f} {y:.1f}V{before:.1f}Q{x:.1f} {to_y:.1f} {x + turn:.1f} {to_y:.1f}H{to_x:.1f}"
