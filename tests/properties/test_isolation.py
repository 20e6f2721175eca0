"""What a token may not see changes nothing: what stands in other cells, what is fed beside it, a step that failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.program.program import Program
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import Result
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model
from tests.oracle.toy_models import Family
from tests.properties.disturbed import Disturbed, Failing
from tests.properties.models import Weights
from tests.properties.test_runtime import WARM, outcome
from tests.runtime.float64 import wide_softmax
from tests.runtime.test_engine import DOCUMENTS, FAN_OUT, PRODUCT, inputs_of


def hashed() -> FakeModel:
    model = hashed_model(320, seed=11)
    model.cells = 1 << 15
    return model


def check_failing(plan: Plan, seed: int, step: int, kept: int) -> None:
    model = Failing(hashed(), step)
    engine = Engine(model, byte_tokenizer(), prefix_cells=kept)
    expected = outcome(Engine(Failing(hashed(), 0), byte_tokenizer(), prefix_cells=kept), plan, seed=seed)
    try:
        engine.batch(plan, [inputs_of(plan.inputs)] * 2, sampling=WARM, seed=seed)
    except ConnectionError:
        engine.check_integrity()
        assert engine.scheduler.memory.cells.in_use == sum(len(node.cells) for node in engine.scheduler.prefix.nodes)
        assert kept or engine.scheduler.memory.cells.in_use == 0
    model.left = 0
    assert outcome(engine, plan, seed=seed) == expected


@pytest.mark.parametrize("kept", [0, 4096])
@pytest.mark.parametrize("step", [1, 2, 3, 9])
@pytest.mark.parametrize("program", [PRODUCT, DOCUMENTS, FAN_OUT], ids=["JSON", "documents", "fan-out"])
def test_a_model_that_fails_at_a_step_leaves_nothing_behind(program: Program, step: int, kept: int) -> None:
    check_failing(build_plan(program.only_template, program), 3, step, kept)


def test_noise_where_a_token_does_look_changes_its_logits() -> None:
    """The noise of `disturbed.py` can be found: in visible cells it changes logits."""

    class Blind(Disturbed):
        def _disturb(self, batch: StepBatch, fed: tuple[FedToken, ...], token: FedToken) -> StepBatch:
            return super()._disturb(batch, fed, replace(token, sees=token.sees[len(token.sees) // 2 :]))

    model = Blind(Weights(Family.LLAMA), seed=1)
    with wide_softmax():
        result = Engine(model, byte_tokenizer()).run(PRODUCT, {"title": "x"}, sampling=WARM)
    assert isinstance(result, Result) and model.compared > 5
    assert model.worst > 1e-3
