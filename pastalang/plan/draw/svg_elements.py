"""How a drawing looks as SVG: the style sheet with its colours and fonts, the elements, the signs of the legend."""

from __future__ import annotations

from enum import Enum
from html import escape as _escape
from typing import assert_never

from pastalang.plan.draw.shapes import BarShape, Bend, Box, Colour, Diamond, Label, Line
from pastalang.plan.draw.text_metrics import printable
from pastalang.plan.draw.timeline import Chosen, Forked, Joined, Looped, Timeline, Words


class Sign(Enum):
    BAR = "a value being decoded: as long as its token limit"
    CRITICAL = "on the longest path: it decides the number of passes"
    WORDS = "text that is given, never decoded"
    FORK = "a branch begins: it sees what is left of here"
    JOIN = "a join: waits for these and sees them"
    WAIT = "waiting"
    CHOICE = "the model chooses how to go on"
    LOOP = "a loop ×(least..most items)"
    GROUP = "lock-step: token k also sees tokens 1..k above it"


def signs_of(timeline: Timeline) -> tuple[Sign, ...]:
    events = [event for lane in timeline.lanes for event in lane.events]
    holds = {
        Sign.BAR: any(not bar.critical for bar in timeline.bars),
        Sign.CRITICAL: any(bar.critical for bar in timeline.bars),
        Sign.WORDS: any(isinstance(event, Words) or (isinstance(event, Forked) and event.lead) for event in events),
        Sign.FORK: any(isinstance(event, Forked) for event in events),
        Sign.JOIN: any(isinstance(event, Joined) for event in events),
        Sign.WAIT: any(isinstance(event, Joined) and event.start < event.at for event in events),
        Sign.CHOICE: any(isinstance(event, Chosen) for event in events),
        Sign.LOOP: any(isinstance(event, Looped) for event in events) or any(lane.loops for lane in timeline.lanes),
        Sign.GROUP: any(lane.branch.lockstep for lane in timeline.lanes),
    }
    return tuple(sign for sign, occurs in holds.items() if occurs)


LONGEST_TIP = 400
SANS = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"
STYLESHEET = f"""
text {{ font-family: {SANS}; fill: #1f2937; }}
.title {{ font-size: 28px; font-weight: 700; fill: #111827; }}
.subtitle {{ font-size: 14px; fill: #6b7280; }}
.figure {{ font-size: 24px; font-weight: 700; fill: #111827; }}
.caption {{ font-size: 12px; fill: #6b7280; }}
.section {{ font-size: 14px; font-weight: 700; fill: #374151; }}
.name {{ font-size: 13px; font-weight: 600; }}
.words {{ font-size: 11.5px; font-family: {MONO}; fill: #64748b; }}
.chip {{ font-size: 11px; fill: #4b5563; }}
.type, .value {{ font-size: 11.5px; }}
.limit {{ font-size: 11.5px; fill: #475569; }}
.times {{ font-size: 11.5px; font-weight: 600; fill: #7c3aed; }}
.tick {{ font-size: 11px; fill: #9ca3af; }}
.halo {{ paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }}
.page {{ fill: #ffffff; }}
.tile {{ fill: #f8fafc; stroke: #e5e7eb; }}
.band {{ fill: #f1f5f9; }}
.grid {{ stroke: #e5e7eb; stroke-width: 1; }}
.chipbox {{ fill: #eef2f7; stroke: #cbd5e1; }}
.bar {{ fill: {Colour.BAR}; stroke: {Colour.BAR_EDGE}; }}
.critical {{ fill: {Colour.CRITICAL}; stroke: {Colour.CRITICAL_EDGE}; }}
.pale {{ fill: #ffffff; fill-opacity: 0.62; }}
.ghost {{ fill-opacity: 0.35; stroke-opacity: 0.45; }}
.lane {{ stroke: #94a3b8; stroke-width: 2; }}
.wait {{ stroke: {Colour.JOIN}; stroke-width: 1.8; stroke-dasharray: 1.5 4.5; stroke-linecap: round; }}
.under {{ fill: none; stroke: #ffffff; stroke-width: 5; }}
.fork {{ fill: none; stroke: {Colour.FORK}; stroke-width: 1.6; }}
.join {{ fill: none; stroke: {Colour.JOIN}; stroke-width: 1.8; }}
.forkdot {{ fill: {Colour.FORK}; }}
.joindot {{ fill: {Colour.JOIN}; }}
.choice {{ fill: #ede9fe; stroke: #7c3aed; }}
.loop {{ fill: none; stroke: #a78bfa; stroke-dasharray: 5 4; }}
.group {{ fill: #0891b2; }}
.gap {{ fill: #ffffff; stroke: #94a3b8; stroke-dasharray: 3 3; }}
.fed {{ fill: #94a3b8; }}
""".strip()


def escape(text: str) -> str:
    """On one line, and not longer than anybody reads in a tip."""
    shown = printable(text[: 2 * LONGEST_TIP])
    return _escape(shown if len(shown) <= LONGEST_TIP else shown[: LONGEST_TIP - 1] + "…", quote=True)


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def rectangle(box: Box, kind: str, *, round: float = 0.0, tip: str = "") -> str:
    corner = f' rx="{number(round)}"' if round else ""
    shape = (
        f'<rect class="{kind}" x="{number(box.left)}" y="{number(box.top)}" '
        f'width="{number(max(0.0, box.width))}" height="{number(box.height)}"{corner}'
    )
    return f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>"


def paint_label(label: Label) -> str:
    baseline = (label.box.top + label.box.bottom) / 2 + label.style.size * 0.35
    tip = f"<title>{escape(label.full)}</title>" if label.full != label.text else ""
    return (
        f'<text class="{label.style.css}" x="{number(label.box.left)}" y="{number(baseline)}">'
        f"{tip}{escape(label.text)}</text>"
    )


def paint_chip(label: Label) -> str:
    """A turn that is given: a word in a rounded box."""
    box = Box(label.box.left - 7, label.box.top - 2, label.box.right + 3, label.box.bottom + 2)
    return rectangle(box, "chipbox", round=8, tip=label.full) + paint_label(label)


def paint_bar(bar: BarShape) -> str:
    kind = "bar" + (" critical" if bar.critical else "") + (" ghost" if bar.ghost else "")
    backing = rectangle(bar.box, "page", round=4) if bar.ghost else ""
    pale = "".join(rectangle(Box(left, bar.box.top + 1, right, bar.box.bottom - 1), "pale") for left, right in bar.pale)
    return backing + rectangle(bar.box, kind, round=4, tip="" if bar.ghost else bar.tip) + pale


def paint_bends(bends: tuple[Bend, ...]) -> str:
    """With white lines beneath all of them, so that they are seen to pass over what they cross."""
    return "".join(f'<path class="under" d="{_path(bend)}"/>' for bend in bends) + "".join(map(paint_bend, bends))


def paint_bend(bend: Bend) -> str:
    kind = "join" if bend.joins else "fork"
    (x, y), path = bend.start, _path(bend)
    return f'<path class="{kind}" d="{path}"/><circle class="{kind}dot" cx="{number(x)}" cy="{number(y)}" r="3"/>'


def _path(bend: Bend) -> str:
    (x, y), (to_x, to_y), spine = bend.start, bend.end, bend.spine
    turn = min(9.0, abs(to_y - y) / 2)
    down = turn if to_y >= y else -turn
    arrive = number(max(spine, min(spine + 9.0, to_x)))
    middle, height = number(spine), number(to_y)
    leave = f"M{number(x)} {number(y)}"
    if x < spine:
        leave += f"Q{middle} {number(y)} {middle} {number(y + down)}"
    return f"{leave}V{number(to_y - down)}Q{middle} {height} {arrive} {height}H{number(to_x)}"


def paint_line(line: Line) -> str:
    y, kind = number(line.y), "wait" if line.waits else "lane"
    return f'<line class="{kind}" x1="{number(line.start)}" y1="{y}" x2="{number(line.end)}" y2="{y}"/>'


def paint_diamond(diamond: Diamond) -> str:
    x, y, r = diamond.x, diamond.y, 6.0
    corners = " ".join(f"{number(a)},{number(b)}" for a, b in ((x - r, y), (x, y - r), (x + r, y), (x, y + r)))
    return f'<polygon class="choice" points="{corners}"><title>{escape(diamond.tip)}</title></polygon>'


def paint_sign(sign: Sign, x: float, y: float) -> str:
    """The little picture in front of a line of the legend, 36 pixels wide."""
    box = Box(x, y - 6, x + 34, y + 6)
    match sign:
        case Sign.BAR:
            return rectangle(box, "bar", round=4)
        case Sign.CRITICAL:
            return rectangle(box, "bar critical", round=4)
        case Sign.WORDS:
            return f'<text class="words" x="{number(x)}" y="{number(y + 4)}">text</text>'
        case Sign.FORK | Sign.JOIN:
            joins = sign is Sign.JOIN
            down = 7 if not joins else -7
            return paint_bend(Bend((x + 6, y - down), x + 14, (x + 34, y + down), joins))
        case Sign.WAIT:
            return paint_line(Line(x + 2, x + 34, y, True))
        case Sign.CHOICE:
            return paint_diamond(Diamond(x + 17, y, False, "a choice"))
        case Sign.LOOP:
            return rectangle(box, "loop", round=5)
        case Sign.GROUP:
            return rectangle(Box(x + 15, y - 8, x + 19, y + 8), "group", round=2)
    assert_never(sign)
