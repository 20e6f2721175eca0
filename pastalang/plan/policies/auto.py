"""`assistant auto(…)`: the model places the branches itself; until they are known the plan has one hole."""

from __future__ import annotations

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Form, Hole
from pastalang.program.program import AutoBody
from pastalang.program.types import String
from pastalang.source import Span


def write_auto(builder: PlanBuilder, body: AutoBody, span: Span) -> Hole:
    sampling = body.sampling.over(builder.sampling)
    return Hole(builder.name_field("answer"), String(body.max_tokens), Form.TEXT, body.max_tokens, sampling, "", span)
