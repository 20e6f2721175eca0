"""How many cells a run takes: what the plan says, and no more than for those that are alive at one time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pastalang
from pastalang import Mode, Program, Result, Sampling, build_plan
from pastalang.plan.branches import Overrun
from pastalang.plan.simulate import simulate
from pastalang.testing.fakes import FakeModel
from tests.properties import invariants
from tests.properties.cases import FEW
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
            peaks += [found.usage.peak_cells, simulate(plan, engine.last.run_log()).peak_cells]
    assert len(set(peaks)) == 1, peaks


NOTHING_DRAWN = pastalang.compile('''
template t()
user """
Go.
"""
assistant text """
{async a}so {x: string(max=2)} {async b}nothing to draw{end}{end}
{async c}{async d}nothing{end}{async e}either{end}{y: string(max=2)}{end}
{z: string(max=40)}
"""
''')
STACKED = pastalang.compile('''
template t(each title: text)
user """
{title}
"""
assistant json {
  a: string(max=30)
  b: string(max=30)
}
''')
JOINED_IN_A_LOOP = pastalang.compile('''
template t()
user """
Go.
"""
assistant text """
{async a}{fork k (2..3)}- {async b}{x: string(max=8)}{end}{sync}so {y: string(max=2)}{end}{end}
{z: string(max=90)}
"""
''')
LEFT_OUT = pastalang.compile('''
template t()
user """
Go.
"""
assistant json {
  note: string(max=4) | null after size, x
  x: "tv" | "phone" | null
  sequential { name: string(max=5), size: string(max=9) }
}
''')


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("program", "options", "inputs"),
    [
        (NOTHING_DRAWN, {}, {}),
        (STACKED, {"mode": Mode.LOCKSTEP}, {"title": ["x" * 40, "y" * 30, "", "z"]}),
        (JOINED_IN_A_LOOP, {}, {}),
        (LEFT_OUT, {"mode": Mode.LOCKSTEP, "overrun": Overrun.CAP}, {}),
    ],
    ids=["nothing drawn in a branch", "values in lock-step that have ended", "joined in a loop", "no room for a value"],
)
def test_branches_keep_no_memory_behind_their_end(program: Program, options: Any, inputs: Any, seed: int) -> None:
    """In the last one, a value stands before what it waits for, so nothing of it fits there, and it draws nothing."""
    plan = build_plan(program.only_template, program, **options)
    engine = engine_for(Hashes(seed, 3.0 if inputs else 0.0).model(PLENTY), Way(), kind=Watched)
    [found] = engine.batch(plan, [inputs], seed=seed, sampling=Sampling(temperature=1.0))
    assert isinstance(found, Result) and (program is not LEFT_OUT or found.value["note"] is None)
    assert found.usage.peak_cells <= simulate(plan, engine.last.run_log()).peak_cells
    check_nothing_is_left(engine)


@FEW(24)
@given(st.data())
def test_no_run_holds_more_than_its_plan_says(data: st.DataObject) -> None:
    invariants.check_cells(data)
