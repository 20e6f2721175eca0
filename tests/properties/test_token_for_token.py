"""The engine, in whatever way it is run, gives token for token what the slow decoder gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pastalang
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Mode, Plan
from pastalang.program.types import Sampling
from pastalang.runtime.model.toy import Family
from tests.properties.slowly import FAMILIES, FEW, check_cancelling, check_hashed, check_model, check_stack, plans
from tests.properties.ways import Way

SKELETON = pastalang.compile('''
template t(title: text)
user """
{title}
"""
assistant json {
  a: string(max=3)
  b: string(max=7)
  c: integer(0..99)
  d: string(max=2)
  e: string(max=5)
}
''')


@FEW(16)
@given(st.data(), plans())
def test_every_way_of_running_gives_the_tokens_of_the_slow_decoder(data: st.DataObject, plan: Plan) -> None:
    check_hashed(data, plan, different_ways=8)


@FEW(6)
@given(st.data(), plans(), st.sampled_from(FAMILIES))
def test_every_model_gives_the_tokens_of_the_slow_decoder(
    data: st.DataObject, plan: Plan, kind: tuple[Family, int | None]
) -> None:
    check_model(data, plan, kind)


@FEW(12)
@given(st.data(), plans())
def test_a_cancellation_at_any_step_leaves_nothing_behind_and_the_others_their_tokens(
    data: st.DataObject, plan: Plan
) -> None:
    check_cancelling(data, plan)


@pytest.mark.parametrize("kind", FAMILIES, ids=str)
@FEW(2)
@given(st.data(), st.integers(0, 1 << 16))
def test_in_lock_step_no_value_that_runs_ahead_changes_what_another_one_sees(
    kind: tuple[Family, int | None], data: st.DataObject, seed: int
) -> None:
    plan = build_plan(SKELETON.only_template, SKELETON, mode=Mode.LOCKSTEP)
    ways = [Way(), Way(pauses=seed), Way(chunk=1, pauses=seed + 1), Way(cells=150)]
    check_model(data, plan, kind, run_in=ways, sampling=Sampling(temperature=1.0))


@pytest.mark.long
@FEW(1_500)
@given(st.data(), plans())
def test_every_way_of_running_many_programs(data: st.DataObject, plan: Plan) -> None:
    check_hashed(data, plan, different_ways=8)


@pytest.mark.long
@FEW(300)
@given(st.data(), plans(depth=2))
def test_every_way_of_running_large_programs(data: st.DataObject, plan: Plan) -> None:
    check_hashed(data, plan, different_ways=8)


@pytest.mark.long
@FEW(2_000)
@given(st.data(), plans(), st.sampled_from(FAMILIES))
def test_every_model_on_many_programs(data: st.DataObject, plan: Plan, kind: tuple[Family, int | None]) -> None:
    check_model(data, plan, kind)


@pytest.mark.long
@FEW(2_000)
@given(st.data(), plans(stacked=True))
def test_many_stacks(data: st.DataObject, plan: Plan) -> None:
    check_stack(data, plan)


@pytest.mark.long
@FEW(2_000)
@given(st.data(), plans())
def test_many_cancellations(data: st.DataObject, plan: Plan) -> None:
    check_cancelling(data, plan)
