"""Random programs on random models: the engine against the reference, and against itself on other schedules."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastalang.plan.build import build_plan
from pastalang.plan.builder import PlanError
from pastalang.plan.plan import Mode, Plan
from pastalang.program.types import Sampling
from pastalang.runtime.attention.plain_views import PlainViews
from pastalang.runtime.engine import Engine
from pastalang.runtime.errors import DeadEnd
from pastalang.runtime.models.reference import reference_logits
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.step_budget import Limits
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.testing.strategies import programs
from tests.oracle.toy_models import Family, toy_model
from tests.runtime.float64 import in_float64, wide_softmax
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


class Checked:
    """A model that compares every row of logits with the reference."""

    def __init__(self, family: Family, seed: int) -> None:
        self.fast = TransformersModel(in_float64(toy_model(family, seed=seed)), cells=4096, check=False)
        self.weights = in_float64(toy_model(family, seed=seed))
        self.views = PlainViews()
        self.worst = 0.0
        self.left = 12  # rows: the reference is slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fast, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        with wide_softmax():
            logits = self.fast.forward(batch)
            fed = self.views.feed(batch)
            for row, index in enumerate(batch.wanted):
                if self.left and len(fed[index].sees) < 300:
                    self.left -= 1
                    expected = reference_logits(self.weights, fed[index])
                    self.worst = max(self.worst, float((logits[row] - expected).abs().max()))
        return logits


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
    return type(found).__name__


def pauses(seed: int) -> Any:
    """Branches stand still now and then, and move sooner or later."""
    chance = random.Random(seed)
    return lambda branch: chance.random() < 0.6


def check_against_reference(plan: Plan, family: Family, seed: int) -> None:
    model = Checked(family, seed)
    runner = Engine(model, byte_tokenizer())  # type: ignore[arg-type]
    outcome(runner, plan, seed=seed)
    assert model.worst <= 1e-9


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


def check_batches(plan: Plan, seed: int) -> None:
    alone = [outcome(engine(), plan, seed=seed)] * 3
    runner = engine()
    together = runner.batch(plan, [inputs_of(plan.inputs)] * 3, sampling=WARM, seed=seed)
    runner.check_integrity()
    texts = [one.text if isinstance(one, Result) else "" for one in together]
    assert all(text in one for text, one in zip(texts, alone, strict=True))


def check_cancelling(plan: Plan, seed: int, steps: int) -> None:
    runner = engine(prefix_cells=0)
    try:
        events: Iterator[Any] = runner.stream(plan, inputs_of(plan.inputs), sampling=WARM, seed=seed)
    except DeadEnd:
        pass  # a limit leaves no value, which refuses every run of the plan
    else:
        for _ in range(steps):
            if next(events, None) is None:
                break
        events.close()  # type: ignore[attr-defined]
    runner.check_integrity()
    assert runner.scheduler.is_idle and runner.scheduler.memory.cells.in_use == 0


SEEDS = st.integers(0, 1 << 16)


@FEW
@given(plans(), st.sampled_from([Family.LLAMA, Family.QWEN3]), SEEDS)
def test_logits_are_those_of_the_reference(plan: Plan, family: Family, seed: int) -> None:
    check_against_reference(plan, family, seed)


@FEW
@given(plans(), SEEDS)
def test_no_schedule_changes_a_token(plan: Plan, seed: int) -> None:
    check_schedules(plan, seed)


@FEW
@given(plans(), SEEDS)
def test_no_batch_changes_an_answer(plan: Plan, seed: int) -> None:
    check_batches(plan, seed)


@FEW
@given(plans(), SEEDS, st.integers(0, 60))
def test_nothing_is_left_behind_after_a_cancellation(plan: Plan, seed: int, steps: int) -> None:
    check_cancelling(plan, seed, steps)


@pytest.mark.long
@MANY
@given(plans(), st.sampled_from([Family.LLAMA, Family.QWEN3]), SEEDS, st.integers(0, 60))
def test_all_of_this_on_many_programs(plan: Plan, family: Family, seed: int, steps: int) -> None:
    check_against_reference(plan, family, seed)
    check_schedules(plan, seed)
    check_batches(plan, seed)
    check_cancelling(plan, seed, steps)


def test_a_branch_is_known_by_its_identity() -> None:
    assert BranchState.__eq__ is object.__eq__
