"""Plans, and the bound plans of an engine, made once each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

from pastalang.compiler import load
from pastalang.plan.branches import Mode, Overrun, Placement
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.program.program import Program
from pastalang.runtime.binding.bound_plan import BoundPlan, MakeGuide
from pastalang.runtime.call import options_of, template_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.models.carried import EVERYTHING, Carried

MOST = 64  # programs, and plans
Runnable: TypeAlias = Program | Plan | str | os.PathLike[str]  # what a run takes: a text is the path of a file


class Plans:
    """Programs are compared by identity: an equal program loaded twice is planned twice."""

    def __init__(
        self, overrun: Overrun = Overrun.CONTINUE, placement: Placement = Placement.GAPS,
        carried: Carried = EVERYTHING,
    ) -> None:  # fmt: skip
        self._overrun = overrun  # of the plans that are made here
        self._placement = placement  # of those for which none is asked
        self._carried = carried
        self._plans: dict[tuple[int, str | None, Mode, Placement], tuple[Program, Plan]] = {}
        self._files: dict[Path, Program] = {}

    def plan(
        self, program: Runnable, *, template: str | None, mode: str | Mode, placement: str | Placement | None = None
    ) -> Plan:
        """Raises `BadInputs` or `PlanError`."""
        options_of({"mode": mode, "template": template, "placement": placement})
        if isinstance(program, str | os.PathLike):
            program = self._loaded(program)
        if isinstance(program, Plan):
            if template not in (None, program.template):
                raise BadInputs(f"the plan belongs to the template `{program.template}`, not to `{template}`")
            if placement is not None and Placement(placement) is not program.placement:
                raise BadInputs(f"the placement of the plan is {program.placement.value}, which a call cannot change")
            self._carried.check_plan(program)
            return program
        given: Any = program
        if not isinstance(given, Program):
            raise TypeError(_no_program(given))
        mode, placement = Mode(mode), Placement(placement or self._placement)
        self._carried.check_mode(mode)
        self._carried.check_placement(placement)
        key = id(program), template, mode, placement
        known = self._plans.get(key)
        if known is None or known[0] is not program:
            _make_room(self._plans)
            chosen = template_of(program, template)
            plan = build_plan(chosen, program, mode=mode, overrun=self._overrun, placement=placement)
            known = self._plans[key] = program, plan
        return known[1]

    def _loaded(self, path: str | os.PathLike[str]) -> Program:
        """The program in a file: read again at each call, so that edits count, and planned again only if it changed."""
        if isinstance(path, str) and "\n" in path:
            raise TypeError("a text is the path of a program here; pastalang.compile makes a program of its source")
        found, at = load(path), Path(path).absolute()
        known = self._files.get(at)
        if known is None or known != found:
            _make_room(self._files)
            known = self._files[at] = found
        return known


class PlanCache(Plans):
    """Bound plans are found by the identity of their plan."""

    def __init__(
        self, encoder: Encoder, make_guide: MakeGuide, overrun: Overrun = Overrun.CONTINUE,
        placement: Placement = Placement.GAPS, carried: Carried = EVERYTHING, *, keys_in_words: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(overrun, placement, carried)
        self._encoder = encoder
        self._make_guide = make_guide
        self._keys_in_words = keys_in_words
        self._bound: dict[int, tuple[Plan, BoundPlan]] = {}

    def has_checks(self, plan: Plan) -> bool:
        """Whether values of the answer are checked when they are finished."""
        return self._binding(plan).has_checks

    def bound(self, plan: Plan) -> BoundPlan:
        """The plan bound to the tokenizer. Raises what is wrong with the plan for this tokenizer."""
        return self._binding(plan).checked

    def _binding(self, plan: Plan) -> BoundPlan:
        known = self._bound.get(id(plan))
        if known is None or known[0] is not plan:
            _make_room(self._bound)
            known = self._bound[id(plan)] = plan, BoundPlan(plan, self._encoder, self._make_guide, self._keys_in_words)
        return known[1]


def _no_program(given: object) -> str:
    if isinstance(given, type):
        return f"a type is not a program: write `extract({given.__name__}, text)`, or run pastalang.from_model of it"
    return f"expected a program, a plan or the path of a .pasta file, not {given!r:.60}"


def _make_room(cache: dict[Any, Any]) -> None:
    if len(cache) >= MOST:
        cache.clear()
