"""The bare graph of a plan, as a Mermaid flow chart or in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pastalang.plan.branches import BranchId, PlanData
from pastalang.plan.draw.grid import times_of
from pastalang.plan.draw.shapes import Colour
from pastalang.plan.draw.text_metrics import printable
from pastalang.plan.draw.timeline import Forked, Joined, Lane, Timeline
from pastalang.plan.draw.timeline_builder import build_timeline
from pastalang.values.describe import caption


@dataclass(frozen=True, slots=True)
class Edge:
    """A fork, with the gap that it leaves; or a join: `end` waits for `start`."""

    start: BranchId
    end: BranchId
    joins: bool
    label: str


def edges_of(timeline: Timeline) -> Iterator[Edge]:
    """Forks and joins, in the order of the lanes."""
    for lane in timeline.lanes:
        for event in lane.events:
            if isinstance(event, Forked):
                reserve = timeline.plan.branch(event.branch).reserve
                yield Edge(lane.branch.id, event.branch, False, f"+{reserve}" if reserve else "")
            if isinstance(event, Joined):
                for branch in event.branches:
                    yield Edge(branch, lane.branch.id, True, "join")


def summarise(lane: Lane) -> str:
    """The holes of a branch in a few words, and how often it may occur."""
    holes = [f"{caption(bar.hole.type)} · {bar.hole.max_tokens}" for bar in lane.bars]
    if len(holes) > 3:
        holes = [*holes[:2], f"{len(holes) - 2} more"]
    return " ".join(part for part in (", ".join(holes) or "text", times_of(lane)) if part)


LONGEST_DOT_LABEL = 120


def draw_dot(plan: PlanData) -> str:
    return "\n".join(_dot_lines(plan)) + "\n"


def _dot_lines(plan: PlanData) -> Iterator[str]:
    timeline = build_timeline(plan)
    yield f"digraph {_quote(plan.template)} {{"
    yield "  rankdir=LR;"
    bar = f'fillcolor="{Colour.BAR}", color="{Colour.BAR_EDGE}"'
    yield f'  node [shape=box, style="rounded,filled", {bar}, fontname="Helvetica"];'
    yield f'  edge [color="{Colour.FORK}", fontname="Helvetica", fontsize=10];'
    for lane in timeline.lanes:
        critical = any(bar.critical for bar in lane.bars)
        fill = f', fillcolor="{Colour.CRITICAL}", color="{Colour.CRITICAL_EDGE}"' if critical else ""
        yield f"  b{lane.branch.id} [label={_quote(lane.title, summarise(lane))}{fill}];"
    for edge in edges_of(timeline):
        look = f'style=dotted, color="{Colour.JOIN}"' if edge.joins else f"label={_quote(edge.label)}"
        yield f"  b{edge.start} -> b{edge.end} [{look}];"
    yield "}"


def _quote(*lines: str) -> str:
    """A quoted string: quotes and backslashes escaped, one line below the other."""
    shown = [printable(line) for line in lines]
    cut = [line if len(line) <= LONGEST_DOT_LABEL else line[: LONGEST_DOT_LABEL - 1] + "…" for line in shown]
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in cut) + '"'


LONGEST_MERMAID_LABEL = 80
# Everything that Mermaid, or the HTML that it makes, could take for something else is written as a code.
PLAIN = frozenset(" .,:()+-*/_·×…")


def draw_mermaid(plan: PlanData) -> str:
    return "\n".join(_mermaid_lines(plan)) + "\n"


def _mermaid_lines(plan: PlanData) -> Iterator[str]:
    timeline = build_timeline(plan)
    yield "flowchart LR"
    for lane in timeline.lanes:
        kind = ":::critical" if any(bar.critical for bar in lane.bars) else ""
        yield f'  b{lane.branch.id}["{_escape(lane.title)}<br/>{_escape(summarise(lane))}"]{kind}'
    for edge in edges_of(timeline):
        if edge.joins:
            yield f"  b{edge.start} -. join .-> b{edge.end}"
        else:
            label = f'|"{_escape(edge.label)}"|' if edge.label else ""
            yield f"  b{edge.start} -->{label} b{edge.end}"
    yield f"  classDef critical fill:{Colour.CRITICAL},stroke:{Colour.CRITICAL_EDGE};"


def _escape(text: str) -> str:
    shown = printable(text)
    shown = shown if len(shown) <= LONGEST_MERMAID_LABEL else shown[: LONGEST_MERMAID_LABEL - 1] + "…"
    return "".join(
        character if (character.isascii() and character.isalnum()) or character in PLAIN else f"#{ord(character)};"
        for character in shown
    )
