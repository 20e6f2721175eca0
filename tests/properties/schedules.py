"""Random programs on a model that hashes what it sees, run on other schedules: helpers of the properties."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pastalang import Engine, Invalid, Limits, Mode, Plan, PlanError, Result, Sampling, build_plan
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.testing.strategies import programs
from tests.runtime.test_engine import inputs_of

WARM = Sampling(temperature=1.0)
FEW = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    program = draw(programs())
    template = next(iter(program.templates.values()))
    try:
        return build_plan(template, program, mode=draw(st.sampled_from(Mode)))
    except PlanError:
        return draw(plans())


def engine(*, cells: int = 1 << 15, **options: Any) -> Engine:
    model = hashed_model(320, seed=11)
    model.cells = cells
    return Engine(model, byte_tokenizer(), **options)


def outcome(runner: Engine, plan: Plan, *, seed: int) -> str:
    """The answer's text and tokens, or the kind of error."""
    [found] = runner.batch(plan, [inputs_of(plan.inputs)], sampling=WARM, seed=seed)
    runner.check_integrity()
    if isinstance(found, Result):
        return repr([(field.path, field.items, field.tokens) for field in found.fields]) + found.text
    assert "internal" not in str(found), found
    had_no_room = isinstance(found, Invalid) and found.result is not None and found.result.usage.given_up
    return "OutOfMemory" if had_no_room else type(found).__name__


def pauses(seed: int) -> Any:
    """Branches stand still now and then, and move sooner or later."""
    chance = random.Random(seed)
    return lambda branch: chance.random() < 0.6


def check_schedules(plan: Plan, seed: int) -> None:
    expected = outcome(engine(), plan, seed=seed)
    assert outcome(engine(prefix_cells=0), plan, seed=seed) == expected
    assert outcome(engine(limits=Limits(chunk=1 + seed % 5)), plan, seed=seed) == expected
    assert outcome(engine(schedule_filter=pauses(seed)), plan, seed=seed) == expected
    twice = engine()
    outcome(twice, plan, seed=seed)
    assert outcome(twice, plan, seed=seed) == expected
    small = outcome(engine(cells=100 + seed % 200, prefix_cells=0), plan, seed=seed)
    assert small in (expected, "OutOfMemory")


SEEDS = st.integers(0, 1 << 16)
