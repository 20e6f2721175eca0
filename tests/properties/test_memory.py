"""How many cells a run takes: what the plan says, and no more than for those that are alive at one time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pastalang
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.simulate import simulate
from pastalang.runtime.assemble import realised_of
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.request import RequestState
from tests.properties.slowly import FEW, hashed, plans
from tests.properties.ways import PLENTY, Way, check_nothing_is_left, engine_for, inputs_for, samplings

FAN_OUT = pastalang.compile('''
template notes(points: [text])
user """
Notes.
"""
assistant text """
{fork point in points ~12}
{point}: {note: string(max=6)}
{end}
"""
''')


class Watched(Engine):
    """Keeps what its last request was."""

    last: RequestState

    def _outcome_of(self, request: RequestState) -> Any:
        self.last = request
        return super()._outcome_of(request)


def check_peak(data: st.DataObject, plan: Plan, kept: int) -> None:
    """Where nothing waits, no more than in the simulated run, which feeds some tokens before anybody sees them."""
    model = hashed()
    model.cells = PLENTY
    engine = engine_for(model, Way(kept=kept), kind=Watched)
    inputs = data.draw(inputs_for(plan))
    [found] = engine.batch(plan, [inputs], seed=data.draw(st.integers(0, 99)), sampling=data.draw(samplings()))
    if isinstance(found, Result) and not engine.last.was_held_back:
        assert found.usage.peak_cells <= simulate(plan, realised_of(engine.last)).peak_cells


@FEW(40)
@given(st.data(), plans(), st.sampled_from((0, PLENTY // 4)))
def test_a_run_never_holds_more_cells_at_one_time_than_the_plan_says(
    data: st.DataObject, plan: Plan, kept: int
) -> None:
    check_peak(data, plan, kept)


@pytest.mark.long
@FEW(4_000)
@given(st.data(), plans(depth=2), st.sampled_from((0, PLENTY // 4)))
def test_the_most_cells_of_many_runs(data: st.DataObject, plan: Plan, kept: int) -> None:
    check_peak(data, plan, kept)


@pytest.mark.parametrize("kept", [0, 20])
def test_a_long_fan_out_runs_in_the_memory_of_its_live_branches(kept: int) -> None:
    """Two hundred items of some twelve cells each, in a memory for the prompt and about three of them."""
    plan = build_plan(FAN_OUT.only_template, FAN_OUT)
    inputs = {"points": [f"p{number}" for number in range(200)]}
    model = hashed()
    model.cells = 80
    engine = engine_for(model, Way(kept=kept))
    [found] = engine.batch(plan, [inputs])
    assert isinstance(found, Result)
    assert found.usage.peak_cells <= 80 < sum(len(field.tokens) for field in found.fields)
    cells = [cell for step in model.steps for cell in step.cells]
    assert len(cells) > 1_000 and set(cells) <= set(range(80)), "cells are not used again"
    check_nothing_is_left(engine)


def test_a_kept_prompt_is_counted_like_one_that_is_fed_and_both_as_in_the_forecast() -> None:
    plan = build_plan(FAN_OUT.only_template, FAN_OUT)
    peaks = []
    for way in (Way(), Way(kept=PLENTY // 4)):
        model = hashed()
        model.cells = PLENTY
        engine = engine_for(model, way, kind=Watched)
        for _ in range(2):
            [found] = engine.batch(plan, [{"points": ["a", "b"]}])
            assert isinstance(found, Result)
            peaks += [found.usage.peak_cells, simulate(plan, realised_of(engine.last)).peak_cells]
    assert len(set(peaks)) == 1, peaks
