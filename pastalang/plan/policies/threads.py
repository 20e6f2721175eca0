"""Texts in which the model opens threads: one hole, and a branch whose instances are the threads.

text ──tag──┬── text goes on ──
            └── opening, thread
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Hole, Text
from pastalang.program.types import AutoPolicy

_OPENINGS: Final = {AutoPolicy.PASTA: "<async>", AutoPolicy.APAR: "[Child]"}


def open_threads(builder: PlanBuilder, hole: Hole, name: str) -> Hole:
    """The hole with its branch for threads, which is called `name`."""
    assert hole.auto is not None, "threads are opened by tags"
    branch = builder.start(name)
    builder.finish(branch, (Text(_OPENINGS[hole.auto], shown=False), replace(hole, field=builder.name_field(name))))
    return replace(hole, threads=branch)
