"""Texts in which the model opens threads: one hole, and a branch whose instances are the threads.

    text ──tag──┬── text goes on ──[join]── what follows in the same branch sees all threads
                └── opening, thread

Whoever joins the branch of the text joins its threads as well. The join is left out where the branch neither draws nor
forks anything after the text: then nothing waits, and the memory of a thread that nobody sees is free at its end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from pastalang.plan.branches import (
    Arm,
    BranchId,
    Choose,
    Each,
    Fork,
    Form,
    Hole,
    Join,
    Overrun,
    Repeat,
    Segment,
    Segments,
    Text,
)
from pastalang.plan.builder import PlanBuilder, PlanError
from pastalang.program.types import AutoPolicy, Sampling, String
from pastalang.source import Span
from pastalang.values.lengths import default_max_tokens

_OPENINGS: Final = {AutoPolicy.PASTA: "<async>", AutoPolicy.APAR: "[Child]"}
_QUOTE: Final = Text('"')


def open_threads(builder: PlanBuilder, hole: Hole, name: str) -> Hole:
    """The hole with its branch for threads, which is called `name`."""
    assert hole.auto is not None, "threads are opened by tags"
    branch = builder.start(name)
    builder.threads.add(branch)
    builder.finish(branch, (Text(_OPENINGS[hole.auto], shown=False), replace(hole, field=builder.name_field(name))))
    return replace(hole, threads=branch)


def write_text(builder: PlanBuilder, type: String, path: str, form: Form, sampling: Sampling, span: Span) -> Segments:
    """A text with threads among other things. In JSON it stands between quotes, and is escaped in the answer."""
    if builder.overrun is Overrun.CAP:
        raise PlanError(
            f"`{path}` cannot be closed at its reserve: how long its threads become is not known before",
            span,
            help='build the plan with `overrun="continue"`',
        )
    limit = default_max_tokens(type, builder.types, quoted=form is Form.JSON, defaults=builder.defaults)
    hole = Hole(builder.name_field(path), type, form, limit, sampling, "", span)
    text = open_threads(builder, hole, f"{path}.thread[]")
    assert text.threads is not None
    segments = (text, Join((text.threads,)))
    return (_QUOTE, *segments, _QUOTE) if form is Form.JSON else segments


def without_idle_joins(segments: Segments, threads: Collection[BranchId], *, goes_on: bool = False) -> Segments:
    """The segments without joins of threads that nothing sees. `goes_on`: the branch draws or forks after them."""
    kept: list[Segment] = []
    for segment in reversed(segments):
        match segment:
            case Join(branches=branches) if not goes_on and all(branch in threads for branch in branches):
                continue
            case Choose(arms=arms):
                inner = (without_idle_joins(arm.segments, threads, goes_on=goes_on) for arm in arms)
                written = tuple(Arm(arm.label, arm.lead, one) for arm, one in zip(arms, inner, strict=True))
                kept.append(replace(segment, arms=written))
            case _:
                kept.append(segment)
        goes_on = goes_on or isinstance(segment, Hole | Choose | Repeat | Fork | Each)
    return tuple(reversed(kept))
