"""The invariants of the runtime on random programs and random small models: see `tally.py` for what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pastalang
from pastalang import Mode, Sampling, build_plan
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.oracle.toy_models import Family
from tests.properties import invariants
from tests.properties.cases import FEW, SEEDS, Case
from tests.properties.disturbed import Disturbed
from tests.properties.models import FAMILIES, NOT_WRITTEN_OUT, Hashes, Weights
from tests.properties.ways import PLENTY, Way
from tests.runtime.float64 import wide_softmax

SKELETON = pastalang.compile('''
template t(title: text)
user """
{title}
"""
assistant json {
  a: string(max=3)
  b: string(max=7)
  c: integer(0..99)
  d: string(max=4)
  e: string(max=5)
}
''')


@FEW(48)
@given(st.data())
def test_a_run_is_what_the_slow_decoder_says_however_it_is_run(data: st.DataObject) -> None:
    invariants.check_everything(data)


@FEW(18)
@given(st.data())
def test_a_text_in_which_the_model_begins_branches_is_what_the_slow_decoder_says(data: st.DataObject) -> None:
    invariants.check_auto(data)


@FEW(3)
@given(st.data())
def test_a_run_on_other_models_is_what_the_slow_decoder_says(data: st.DataObject) -> None:
    invariants.check_everything(data, kinds=NOT_WRITTEN_OUT, different_ways=1)


@FEW(13)
@given(st.data())
def test_each_document_of_a_stack_is_answered_as_if_it_were_alone(data: st.DataObject) -> None:
    invariants.check_stack(data)


@FEW(20)
@given(st.data())
def test_a_cancellation_at_any_step_leaves_nothing_behind_and_the_others_their_tokens(data: st.DataObject) -> None:
    invariants.check_cancelling(data)


@FEW(18)
@given(st.data())
def test_a_failure_at_any_step_leaves_nothing_behind(data: st.DataObject) -> None:
    invariants.check_failing(data)


@pytest.mark.parametrize("kind", (*FAMILIES[-3:], *NOT_WRITTEN_OUT), ids=str)
@FEW(2)
@given(st.sampled_from(("a 12", "größer")), SEEDS)
def test_in_lock_step_no_value_that_runs_ahead_changes_what_another_one_sees(
    kind: Weights, title: str, seed: int
) -> None:
    plan = build_plan(SKELETON.only_template, SKELETON, mode=Mode.LOCKSTEP)
    case = Case(plan, ({"title": title},), seed, Sampling(temperature=1.0), kind)
    with wide_softmax():
        for way in (Way(), Way(pauses=seed), Way(chunk=1, pauses=seed + 1), Way(cells=150)):
            invariants.check_all(case, invariants.run(case, kind.model(way.cells or PLENTY), way), way)


VALUES = (
    '["x"](1..1, max_tokens=30)',
    '["long enough"](1..1, max_tokens=30)',
    "integer(7..7)",
    "integer(0..20)",
    "string(max=3)",
)


@FEW(20)
@given(
    st.lists(st.sampled_from(VALUES), min_size=2, max_size=5), st.lists(st.sampled_from(("", "größer")), min_size=1),
    st.sampled_from((1, 2, 3, 5, 9, 20, None)), st.sampled_from((None, 1, 2)), SEEDS,
)  # fmt: skip
@example([VALUES[0], VALUES[3]], ["x"], 3, None, 1)
def test_a_value_in_lock_step_that_is_known_beforehand_is_fed_when_it_is_asked_for(
    values: list[str], titles: list[str], chunk: int | None, pauses: int | None, seed: int
) -> None:
    """It has ended before anything of it is fed, and so perhaps before the text that it stands behind."""
    fields = "".join(f"  f{number}: {value}\n" for number, value in enumerate(values))
    stacked = pastalang.compile(
        f'template t(each title: text)\nuser """\n{{title}}\n"""\nassistant json {{\n{fields}}}\n'
    )
    plan = build_plan(stacked.only_template, stacked, mode=Mode.LOCKSTEP)
    case = Case(plan, ({"title": titles},), seed, Sampling(temperature=1.0), Hashes(5))
    way = Way(chunk=chunk, pauses=pauses)
    invariants.check_all(case, invariants.run(case, case.kind.model(PLENTY), way), way)


class Blind(Disturbed):
    """Puts noise into some cells that a token does see."""

    def _disturb(self, batch: StepBatch, fed: tuple[FedToken, ...], token: FedToken) -> StepBatch:
        return super()._disturb(batch, fed, replace(token, sees=token.sees[len(token.sees) // 2 :]))


def test_noise_where_a_token_does_look_changes_its_logits() -> None:
    model = Blind(Weights(Family.LLAMA), seed=1)
    with wide_softmax():
        pastalang.Engine(model, byte_tokenizer()).run(SKELETON, {"title": "x"}, sampling=Sampling(temperature=1.0))
    assert model.compared > 5 and model.worst > 1e-3
