"""From a finished run to the document that its page shows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from pastalang.plan.plan import Plan
from pastalang.runtime.page.document import AnswerPiece, Cell, Figure, JoinMark, Lane, PageDocument, Sight
from pastalang.runtime.result import Result, Usage
from pastalang.runtime.trace import Fed, Trace
from pastalang.runtime.trace import Lane as TracedLane


def page_of(result: Result, plan: Plan, *, model: str = "") -> PageDocument:
    """`model` is what the page calls the model."""
    trace, sequential = result.trace, result.usage.output_tokens
    return PageDocument(
        title=plan.template,
        subtitle=" · ".join(part for part in (plan.source_name, plan.mode.value, model) if part),
        figures=_figures(trace, result.usage, sequential),
        passes=trace.passes,
        sequential_passes=sequential,
        lanes=tuple(Lane(lane.id, lane_name(lane), lane.parent, lane.forked_in) for lane in trace.lanes),
        cells=_cells(trace),
        joins=tuple(JoinMark(join.lane, join.joined, max(join.since, 1), join.forward_pass) for join in trace.joins),
        sights=_sights(trace),
        answer=tuple(
            AnswerPiece(piece.text, piece.lane, piece.is_forced)
            for answer in result.answers
            for piece in answer.stretches
        ),
    )


def lane_name(lane: TracedLane) -> str:
    """Its branch with the numbers of its items: `lines[].qty` of the third item is `lines[2].qty`."""
    name = lane.name
    for item in lane.items:
        name = name.replace("[]", f"[{item}]", 1) if "[]" in name else f"{name}[{item}]"
    return name


def _figures(trace: Trace, usage: Usage, sequential: int) -> tuple[Figure, ...]:
    passes = max(trace.passes, 1)
    return (
        Figure(f"{trace.passes:,}", "forward passes"),
        Figure(f"{sequential:,}", "left to right"),
        Figure(f"{sequential / passes:.1f}×", "fewer passes"),
        Figure(f"{usage.peak_cells:,}", "cells at most"),
        Figure(f"{usage.seconds:.2f} s", "in all"),
    )


def _cells(trace: Trace) -> tuple[Cell, ...]:
    """What was given comes before what was then sampled, as in the pass itself."""
    given = _given(trace.fed)
    drawn = [
        Cell(drew.lane, drew.forward_pass, drew.text, 1, math.exp(drew.log_probability), drew.position)
        for drew in trace.drawn
    ]
    return tuple(sorted((*given, *drawn), key=lambda cell: (cell.forward_pass, cell.lane, not cell.is_forced)))


def _given(fed: Iterable[Fed]) -> list[Cell]:
    """What stands side by side in one lane and one pass is one cell: a prompt, whatever part of it was kept."""
    cells: list[Cell] = []
    for one in sorted(fed, key=lambda one: (one.lane, one.forward_pass, one.position)):
        last = cells[-1] if cells else None
        follows = last is not None and (one.lane, one.forward_pass, one.position) == (
            last.lane, last.forward_pass, last.position + last.tokens
        )  # fmt: skip
        if last is not None and follows:
            cells[-1] = replace(last, text=last.text + one.text, tokens=last.tokens + one.tokens)
        else:
            cells.append(Cell(one.lane, one.forward_pass, one.text, one.tokens, None, one.position))
    return cells


def _sights(trace: Trace) -> tuple[Sight, ...]:
    own = dict.fromkeys((lane.id for lane in trace.lanes), 0)
    for fed in trace.fed:
        own[fed.lane] += fed.tokens
    for drew in trace.drawn:
        own[drew.lane] += 1
    seen = [Sight(lane.id, other, tokens) for lane in trace.lanes for other, tokens in lane.sees if tokens]
    return (*seen, *(Sight(lane, lane, tokens) for lane, tokens in own.items() if tokens))
