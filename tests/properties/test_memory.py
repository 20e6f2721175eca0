"""How many cells a run takes: what the plan says, and no more than for those that are alive at one time."""

from __future__ import annotations

import pytest

import pastalang
from pastalang.plan.build import build_plan
from pastalang.plan.simulate import simulate
from pastalang.runtime.assemble import realised_of
from pastalang.runtime.model.fakes import FakeModel
from pastalang.runtime.result import Result
from tests.properties.invariants import Watched
from tests.properties.models import Hashes
from tests.properties.ways import PLENTY, Way, check_nothing_is_left, engine_for

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


def hashed(cells: int = PLENTY) -> FakeModel:
    model = Hashes(5).model(cells)
    assert isinstance(model, FakeModel)
    return model


@pytest.mark.parametrize("kept", [0, 20])
def test_a_long_fan_out_runs_in_the_memory_of_its_live_branches(kept: int) -> None:
    """Two hundred items of some twelve cells each, in a memory for the prompt and about three of them."""
    plan = build_plan(FAN_OUT.only_template, FAN_OUT)
    inputs = {"points": [f"p{number}" for number in range(200)]}
    model = hashed(cells=80)
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
        engine = engine_for(hashed(), way, kind=Watched)
        for _ in range(2):
            [found] = engine.batch(plan, [{"points": ["a", "b"]}])
            assert isinstance(found, Result)
            peaks += [found.usage.peak_cells, simulate(plan, realised_of(engine.last)).peak_cells]
    assert len(set(peaks)) == 1, peaks
