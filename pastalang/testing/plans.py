"""Strategy for plans: of random programs, or of your own."""

from __future__ import annotations

from hypothesis import strategies as st

from pastalang.plan.build import build_plan
from pastalang.plan.plan import Mode, Overrun, Plan
from pastalang.program.program import Program
from pastalang.testing.programs import programs


def plans(
    sources: st.SearchStrategy[Program] | None = None, *, modes: tuple[Mode, ...] = tuple(Mode)
) -> st.SearchStrategy[Plan]:
    """Every mode and every way of going on after a join that was announced too short."""
    return st.builds(
        _plan, programs() if sources is None else sources, st.sampled_from(modes), st.sampled_from(Overrun)
    )


def _plan(program: Program, mode: Mode, overrun: Overrun) -> Plan:
    return build_plan(program.only_template, program, mode=mode, overrun=overrun)
