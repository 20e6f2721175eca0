"""The planner: a checked template comes in, a verified plan comes out."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from pastalang.errors import InputError
from pastalang.plan.complete import complete
from pastalang.plan.draft import PlanBuilder
from pastalang.plan.plan import ROOT, Mode, Overrun, Plan
from pastalang.plan.policies.stacking import write_stacked
from pastalang.plan.policies.text_place import Segments
from pastalang.plan.policies.turns import write_turns
from pastalang.plan.recursive_types import recursive_types
from pastalang.plan.verify import verify
from pastalang.program.program import AutoBody, AutoPolicy, JsonBody, Program, Template
from pastalang.program.types import Type

E = TypeVar("E", bound=Enum)


def build_plan(
    template: Template, program: Program, *, mode: Mode | str = Mode.STRICT, overrun: Overrun | str = Overrun.CONTINUE
) -> Plan:
    """`PlanError` where the program asks for something that no plan can give. `mode` and `overrun` may be named."""
    if not isinstance(program, Program) or not isinstance(template, Template):
        raise TypeError(f"a plan is built for a template of a program, not for {template!r:.60} of {program!r:.60}")
    mode, overrun = _named(Mode, "mode", mode), _named(Overrun, "overrun", overrun)
    draft = PlanBuilder(mode, template.name, program.types, program.spans, template.sampling)
    root = draft.start("")
    assert root == ROOT
    draft.finish(root, _write_template(draft, template))
    branches = complete(draft.branches, overrun=overrun)
    plan = Plan(
        template=template.name,
        mode=mode,
        inputs=template.inputs,
        branches=branches,
        output=_output(template),
        types=recursive_types(branches, program.types),
        source_name=program.source.name,
        source_text=program.source.text,
        auto=_auto(template),
    )
    verify(plan)
    return plan


def _named(kind: type[E], name: str, given: E | str) -> E:
    try:
        return kind(given)
    except ValueError as problem:
        known = ", ".join(one.value for one in kind)
        raise InputError(f"`{name}` is one of {known}, not {given!r:.60}") from problem


def _write_template(draft: PlanBuilder, template: Template) -> Segments:
    stacked = next((input for input in template.inputs if input.each), None)
    if stacked is None:
        return write_turns(draft, template.messages)
    return write_stacked(draft, template.messages, stacked)


def _output(template: Template) -> Type | None:
    body = template.messages[-1].body
    return body.type if isinstance(body, JsonBody) else None


def _auto(template: Template) -> AutoPolicy | None:
    body = template.messages[-1].body
    return body.policy if isinstance(body, AutoBody) else None
