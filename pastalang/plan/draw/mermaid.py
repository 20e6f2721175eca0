"""From a plan to a Mermaid flow chart: branches as boxes, forks and joins as arrows."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.plan.draw.edges import edges_of, summarise
from pastalang.plan.draw.text_metrics import printable
from pastalang.plan.draw.timeline_builder import build_timeline
from pastalang.plan.plan import Plan

LONGEST = 80
# Everything that Mermaid, or the HTML that it makes, could take for something else is written as a code.
PLAIN = frozenset(" .,:()+-*/_·×…")


def draw_mermaid(plan: Plan) -> str:
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
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
    yield "  classDef critical fill:#ffe3bf,stroke:#e08a1e;"


def _escape(text: str) -> str:
    shown = printable(text)
    shown = shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"
    return "".join(
        character if (character.isascii() and character.isalnum()) or character in PLAIN else f"#{ord(character)};"
        for character in shown
    )
