"""From a result to the page that shows it: lanes, what each pass fed and drew, the answer in the lanes' colours."""

from __future__ import annotations

import math

from pastalang.plan.plan import Plan
from pastalang.runtime.page.document import AnswerPiece, Cell, Figure, JoinMark, Lane, PageDocument, Sight
from pastalang.runtime.result import Result


def page_of(plan: Plan, result: Result) -> PageDocument:
    trace, usage = result.trace, result.usage
    forced = [Cell(one.lane, one.forward_pass, one.text, one.tokens, None, one.position) for one in trace.fed]
    drawn = [
        Cell(one.lane, one.forward_pass, one.text, 1, math.exp(one.log_probability), one.position)
        for one in trace.drawn
    ]  # fmt: skip
    return PageDocument(
        title=plan.template,
        subtitle=f"{plan.source_name}, {plan.mode.value}",
        figures=_figures(result),
        passes=trace.passes,
        sequential_passes=usage.output_tokens,
        lanes=tuple(Lane(lane.id, lane.name or "answer", lane.parent, lane.forked_in) for lane in trace.lanes),
        cells=tuple(sorted([*forced, *drawn], key=lambda cell: (cell.forward_pass, cell.lane, cell.position))),
        joins=tuple(JoinMark(one.lane, one.joined, one.since, one.forward_pass) for one in trace.joins),
        sights=tuple(Sight(lane.id, seen, tokens) for lane in trace.lanes for seen, tokens in lane.sees),
        answer=tuple(
            AnswerPiece(stretch.text, stretch.lane, stretch.is_forced)
            for answer in result.answers
            for stretch in answer.stretches
        ),
    )


def _figures(result: Result) -> tuple[Figure, ...]:
    usage = result.usage
    fewer = usage.output_tokens / max(usage.forward_passes, 1)
    return (
        Figure(str(usage.forward_passes), "forward passes"),
        Figure(f"{fewer:.1f}x", "fewer passes than drawing every token by itself"),
        Figure(f"{usage.theoretical_speedup:.1f}x", "fewer passes than writing keys and all left to right"),
        Figure(str(usage.peak_cells), "cells at the peak"),
        Figure(f"{usage.seconds:.2f} s", "on this machine"),
    )
