"""A device without memory left: fewer tokens at once and the same answer, or an error that names what was wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import Engine, Limits, LoadError, Mode, OutOfMemory, Plan, Program, Result, build_plan
from pastalang.runtime.attention import kv_cache
from pastalang.runtime.attention.kv_cache import aligned_zeros
from pastalang.runtime.device_memory import is_out_of_memory
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.sampling.rng import RandomKey
from pastalang.runtime.sampling.sampler import NoMemory, Sample, Sampler, SampleRequest
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from tests.oracle.toy_models import toy_model
from tests.properties.schedules import FEW, MANY, SEEDS, WARM, outcome, plans
from tests.properties.test_memory import FAN_OUT
from tests.runtime.float64 import in_float64, wide_softmax
from tests.runtime.test_engine import DOCUMENTS, PRODUCT

ON_A_GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4 GiB")
ON_A_CPU = RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes.")
PROGRAMS = pytest.mark.parametrize("program", [PRODUCT, DOCUMENTS, FAN_OUT], ids=["JSON", "documents", "fan-out"])


class Small:
    """A model on a device that has room for some steps only. `tried` are the sizes of all steps."""

    def __init__(self, fits: Callable[[StepBatch], bool], problem: Exception = ON_A_GPU) -> None:
        self.inner = hashed_model(320, seed=11)
        self.inner.cells = 1 << 15
        self.fits = fits
        self.problem = problem
        self.tried: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        self.tried.append(len(batch))
        if not self.fits(batch):
            raise self.problem
        return self.inner.forward(batch)


def at_most(tokens: int) -> Callable[[StepBatch], bool]:
    return lambda batch: len(batch) <= tokens


def engine_of(model: Any, **options: Any) -> Engine:
    return Engine(model, byte_tokenizer(), **options)


def check_small_device(plan: Plan, seed: int, tokens: int, kept: int) -> None:
    expected = outcome(engine_of(Small(at_most(1 << 15)), prefix_cells=kept), plan, seed=seed)
    model = Small(at_most(tokens))
    engine = engine_of(model, prefix_cells=kept)
    assert outcome(engine, plan, seed=seed) == expected
    assert engine.scheduler.memory.cells.in_use == sum(len(node.memory.cells) for node in engine.scheduler.prefix.nodes)
    model.fits = at_most(1 << 15)
    assert outcome(engine, plan, seed=seed) == expected


@PROGRAMS
@pytest.mark.parametrize("kept", [0, 4096])
@pytest.mark.parametrize("tokens", [1, 2, 7, 40])
def test_a_small_device_gives_the_same_answer(program: Program, tokens: int, kept: int) -> None:
    check_small_device(build_plan(program.only_template, program), 3, tokens, kept)


@pytest.mark.parametrize("chunk", [None, 3, 20])
def test_lock_step_takes_no_more_in_a_step_than_the_device_has_room_for(chunk: int | None) -> None:
    """Values that a value waits for are placed while it is: what is left of the step is asked for behind them."""
    plan = build_plan(PRODUCT.only_template, PRODUCT, mode=Mode.LOCKSTEP)
    assert any(branch.lockstep is not None for branch in plan.branches)
    expected = outcome(engine_of(Small(at_most(1 << 15))), plan, seed=3)
    for tokens in range(1, 24):
        model = Small(at_most(1 << 15))
        engine = engine_of(model, limits=Limits(chunk=chunk))
        engine.scheduler.step_budget.most = tokens
        assert outcome(engine, plan, seed=3) == expected
        assert max(model.tried[:60]) <= tokens


@settings(FEW, max_examples=3)
@given(plans(), SEEDS, st.integers(1, 30), st.sampled_from([0, 200]))
def test_a_small_device_gives_the_same_answers_to_all_programs(plan: Plan, seed: int, tokens: int, kept: int) -> None:
    check_small_device(plan, seed, tokens, kept)


@pytest.mark.long
@MANY
@given(plans(), SEEDS, st.integers(1, 30), st.sampled_from([0, 200]))
def test_all_of_this_on_many_programs(plan: Plan, seed: int, tokens: int, kept: int) -> None:
    check_small_device(plan, seed, tokens, kept)


@PROGRAMS
def test_a_step_that_is_short_of_memory_every_other_time_is_put_together_anew(program: Program) -> None:
    plan = build_plan(program.only_template, program)
    expected = outcome(engine_of(Small(at_most(1 << 15))), plan, seed=5)
    model = Small(lambda batch: len(batch) == 1 or len(model.tried) % 2 == 0)
    assert outcome(engine_of(model), plan, seed=5) == expected


@PROGRAMS
def test_a_real_model_that_is_short_of_memory_in_its_layers_gives_the_same_answer(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = build_plan(program.only_template, program)
    model = TransformersModel(in_float64(toy_model()), cells=1024, check=False)
    last = model._model.model.layers[-1].mlp

    def narrow(states: torch.Tensor) -> torch.Tensor:
        if states.shape[1] > 5:
            raise ON_A_CPU
        return forward(states)  # type: ignore[no-any-return]

    with wide_softmax():
        expected = outcome(engine_of(model), plan, seed=3)
        forward = last.forward
        monkeypatch.setattr(last, "forward", narrow)
        assert outcome(engine_of(model), plan, seed=3) == expected


def test_where_not_even_one_token_fits_the_error_says_what_was_wanted() -> None:
    engine = engine_of(Small(at_most(0)))
    told = r"no memory for a step of 1 token: CUDA out of memory\. Tried to allocate 2\.00 GiB$"
    for _ in range(2):
        with pytest.raises(OutOfMemory, match=told):
            engine.run(PRODUCT, {"title": "x"})
    engine.check_integrity()
    assert engine.scheduler.is_idle and engine.scheduler.memory.cells.in_use == 0


def test_who_asks_for_too_much_fails_alone() -> None:
    plan = build_plan(PRODUCT.only_template, PRODUCT)
    [expected] = engine_of(Small(at_most(1 << 15))).batch(plan, [{"title": "x"}], sampling=WARM)
    assert isinstance(expected, Result)
    engine = engine_of(Small(lambda batch: max(batch.positions) < 400), prefix_cells=0)
    short, long, other = engine.batch(plan, [{"title": "x"}, {"title": "x" * 400}, {"title": "x"}], sampling=WARM)
    assert isinstance(long, OutOfMemory)
    assert [one.text if isinstance(one, Result) else one for one in (short, other)] == [expected.text] * 2
    engine.check_integrity()
    assert engine.scheduler.memory.cells.in_use == 0


def test_larger_steps_are_tried_again_after_a_while() -> None:
    model = Small(at_most(10))
    engine = engine_of(model)
    title = {"title": "x" * 60}
    engine.run(PRODUCT, title)
    assert max(model.tried) > 60
    model.tried.clear()
    model.fits = at_most(1 << 15)
    for number in range(60):
        engine.run(PRODUCT, {"title": f"{number}" * 30})
    assert max(model.tried[:5]) <= 10 < 60 < max(model.tried[-40:])


def test_a_memory_of_cells_that_does_not_fit_is_told_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TransformersModel(toy_model(layers=3), cells=1024, check=False)
    engine = engine_of(model)
    made = []

    def zeros_for_two_layers(shape: tuple[int, ...], *, like: torch.Tensor) -> torch.Tensor:
        made.append(shape)
        if len(made) > 4:
            raise ON_A_CPU
        return aligned_zeros(shape, like=like)

    with monkeypatch.context() as patched:
        patched.setattr(kv_cache, "aligned_zeros", zeros_for_two_layers)
        with pytest.raises(
            OutOfMemory, match=r"the memory of 1024 cells takes \d+ MiB.*load the model with fewer cells"
        ):
            engine.run(PRODUCT, {"title": "x"})
    assert model.kv_cache.bytes == 0 and not model.kv_cache.is_initialized
    engine.check_integrity()
    assert engine.run(PRODUCT, {"title": "x"}, sampling=WARM).value
    assert model.kv_cache.is_initialized


def test_another_problem_of_a_step_ends_one_run_and_leaves_those_beside_it_alone() -> None:
    plan = build_plan(PRODUCT.only_template, PRODUCT)
    [expected] = engine_of(Small(at_most(1 << 15))).batch(plan, [{"title": "x"}], sampling=WARM)
    model = Small(lambda batch: len(model.tried) != 4, ConnectionError("the device is gone"))
    engine = engine_of(model)

    async def both() -> list[Result | BaseException]:
        return await asyncio.gather(
            *(engine.arun(plan, {"title": "x"}, sampling=WARM) for _ in range(2)), return_exceptions=True
        )

    found = asyncio.run(both())
    assert sorted(type(one).__name__ for one in found) == ["ConnectionError", "Result"]
    assert isinstance(expected, Result)
    assert [one.text for one in found if isinstance(one, Result)] == [expected.text]
    engine.check_integrity()


def test_tokens_are_drawn_from_fewer_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(7, 320, generator=torch.Generator().manual_seed(1))
    asks = [SampleRequest(RandomKey(0, str(row), (), 0)) for row in range(7)]
    sampler = Sampler(320)
    expected = sampler.sample(logits, asks)
    sample = Sampler._sample

    def narrow(self: Sampler, logits: torch.Tensor, asks: list[SampleRequest]) -> Any:
        if len(asks) > limit:
            raise ON_A_GPU
        return sample(self, logits, asks)

    monkeypatch.setattr(Sampler, "_sample", narrow)
    limit = 2
    assert sampler.sample(logits, asks) == expected and all(isinstance(one, Sample) for one in expected)
    limit = 0
    assert all(isinstance(one, NoMemory) for one in sampler.sample(logits, asks))
    with pytest.raises(OutOfMemory, match="no memory left to sample a token: CUDA out of memory"):
        engine_of(Small(at_most(1 << 15))).run(PRODUCT, {"title": "x"})


def test_what_torch_says_without_memory_is_known_and_nothing_else() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.int8)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_more_cells_than_the_machine_can_hold_are_told() -> None:
    with pytest.raises(LoadError, match="this machine has no memory for a KV cache of 1000000000000000 cells"):
        Engine.load((toy_model(), byte_tokenizer()), cells=10**15)
