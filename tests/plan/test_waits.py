"""The fields that another one could wait for, and the programs in which it does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import Mode, PlanError, Program, build_plan
from pastalang.plan.verify import verify
from pastalang.plan.waits import ITEM, possible_waits, with_waits
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.testing import programs


def leaves(type: t.Type, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    match type:
        case t.Object(fields=fields):
            return [leaf for one in fields for leaf in leaves(one.type, (*path, one.key))]
        case t.Array(item=item):
            return leaves(item, (*path, ITEM))
        case t.Union(arms=arms):
            return [leaf for arm in arms for leaf in leaves(arm, path)]
    return [path]


@given(st.data(), programs(stacked=False))
@settings(max_examples=25, deadline=None)
def test_every_wait_that_is_tried_makes_a_plan(data: st.DataObject, program: Program) -> None:
    template = program.only_template
    body = template.messages[-1].body
    if not isinstance(body, JsonBody):
        return
    for leaf in leaves(body.type)[:6]:
        waits = possible_waits(template, leaf)
        for some in ([one] for one in waits), [waits]:
            for tried in some:
                try:
                    waiting = with_waits(program, template, tried)
                    plan = build_plan(waiting.only_template, waiting, mode=Mode.STRICT)
                except PlanError:
                    continue
                verify(plan)
