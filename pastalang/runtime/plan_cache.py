"""Plans and bound plans of an engine, made once each."""

from __future__ import annotations

from typing import Any

from pastalang.plan.build import build_plan
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Program
from pastalang.runtime.binding.bound_plan import BoundPlan, MakeGuide
from pastalang.runtime.call import options_of, template_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.scheduler.threads import with_threads

MOST = 64  # programs, and plans


class PlanCache:
    """Programs and plans are compared by identity: an equal program loaded twice is planned twice."""

    def __init__(self, encoder: Encoder, make_guide: MakeGuide) -> None:
        self._encoder = encoder
        self._make_guide = make_guide
        self._plans: dict[tuple[int, str | None, Mode], tuple[Program, Plan]] = {}
        self._bound: dict[int, tuple[Plan, BoundPlan]] = {}

    def plan(self, program: Program | Plan, *, template: str | None, mode: str | Mode) -> Plan:
        mode = options_of({"mode": mode, "template": template}).mode
        if isinstance(program, Plan):
            if template not in (None, program.template):
                raise BadInputs(f"the plan belongs to the template `{program.template}`, not to `{template}`")
            return program
        given: Any = program
        if not isinstance(given, Program):
            raise TypeError(f"expected a program from pastalang.compile or pastalang.load, not {given!r:.60}")
        key = id(program), template, Mode(mode)
        known = self._plans.get(key)
        if known is None or known[0] is not program:
            _make_room(self._plans)
            chosen = template_of(program, template)
            known = self._plans[key] = program, build_plan(chosen, program, mode=Mode(mode))
        return known[1]

    def bound(self, plan: Plan) -> BoundPlan:
        """The plan bound to the tokenizer. Raises what is wrong with the plan for this tokenizer."""
        known = self._bound.get(id(plan))
        if known is None or known[0] is not plan:
            _make_room(self._bound)
            bound = BoundPlan(with_threads(plan), self._encoder, self._make_guide)
            _ = bound.turns  # a chat template that refuses the turns refuses the call
            bound.check_limits()
            known = self._bound[id(plan)] = plan, bound
        return known[1]


def _make_room(cache: dict[Any, Any]) -> None:
    if len(cache) >= MOST:
        cache.clear()
