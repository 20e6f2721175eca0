"""From a plan to a graph in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.plan.draw.edges import edges_of, summarise
from pastalang.plan.draw.text_metrics import printable
from pastalang.plan.draw.timeline_builder import build_timeline
from pastalang.plan.plan import Plan

LONGEST = 120


def draw_dot(plan: Plan) -> str:
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    timeline = build_timeline(plan)
    yield f"digraph {_quote(plan.template)} {{"
    yield "  rankdir=LR;"
    yield '  node [shape=box, style="rounded,filled", fillcolor="#dbe7fd", color="#5b86dd", fontname="Helvetica"];'
    yield '  edge [color="#8594aa", fontname="Helvetica", fontsize=10];'
    for lane in timeline.lanes:
        critical = any(bar.critical for bar in lane.bars)
        fill = ', fillcolor="#ffe3bf", color="#e08a1e"' if critical else ""
        yield f"  b{lane.branch.id} [label={_quote(lane.title, summarise(lane))}{fill}];"
    for edge in edges_of(timeline):
        look = 'style=dotted, color="#0f9d76"' if edge.joins else f"label={_quote(edge.label)}"
        yield f"  b{edge.start} -> b{edge.end} [{look}];"
    yield "}"


def _quote(*lines: str) -> str:
    """A quoted string: quotes and backslashes escaped, one line below the other."""
    shown = [printable(line) for line in lines]
    cut = [line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in shown]
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in cut) + '"'
