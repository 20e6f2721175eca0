"""Checks that compare the engine with the slow decoder: a random plan comes in, the first difference fails."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from pastalang.plan.build import build_plan
from pastalang.plan.plan import Mode, Overrun, Plan
from pastalang.plan.refusal import PlanError
from pastalang.program.types import Sampling
from pastalang.runtime.events import Done, Failed
from pastalang.runtime.model.fakes import FakeModel, hashed_model, hashed_score
from pastalang.runtime.model.toy import Family, toy_model
from pastalang.runtime.model.transformers import TransformersModel
from pastalang.runtime.prompt import Encoder
from pastalang.testing import slow
from pastalang.testing.exact import check_same, slowly
from pastalang.testing.programs import programs
from tests.properties.ways import (
    PLENTY,
    VOCABULARY,
    Way,
    check_nothing_is_left,
    engine_for,
    guides,
    inputs_for,
    is_excused,
    run,
    samplings,
    tokenizer,
    ways,
)
from tests.runtime.float64 import in_float64, wide_softmax

FAMILIES = [(Family.LLAMA, None), (Family.QWEN3, None), (Family.QWEN3, 7), (Family.GEMMA3, 5), (Family.MISTRAL, 9)]
SEEDS = st.integers(0, 1 << 16)
Expected = tuple[slow.Answer, ...] | slow.Refused


def FEW(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def plans(draw: st.DrawFn, *, depth: int = 1, stacked: bool | None = None) -> Plan:
    """Every mode and every way of going on after a join that was announced too short."""
    while True:
        program = draw(programs(depth=depth, stacked=stacked))
        mode, overrun = draw(st.sampled_from(Mode)), draw(st.sampled_from(Overrun))
        try:
            return build_plan(program.only_template, program, mode=mode, overrun=overrun)
        except PlanError:
            continue


def expect(plan: Plan, inputs: Any, logits: slow.Logits, seed: int, sampling: Sampling) -> Expected:
    return slowly(plan, inputs, logits, Encoder(tokenizer()), guides(), seed=seed, sampling=sampling)


def hashed() -> FakeModel:
    model = hashed_model(VOCABULARY, seed=5)
    model.dtype = torch.float64
    return model


@cache
def weights(kind: tuple[Family, int | None]) -> tuple[Any, Any]:
    """Two copies: one whose attention the engine replaces, one for the slow decoder."""
    family, window = kind
    fast, slowest = (in_float64(toy_model(family, seed=3, window=window, hidden=16, heads=2)) for _ in range(2))
    slowest.set_attn_implementation("eager")
    return fast, slowest


def check_hashed(data: st.DataObject, plan: Plan, *, different_ways: int) -> None:
    """One slow decoding of each request, and many fast ones of all of them together."""
    requests = data.draw(st.lists(inputs_for(plan), min_size=1, max_size=3))
    seed, sampling = data.draw(SEEDS), data.draw(samplings())
    score = slow.scored(hashed_score(VOCABULARY, seed=5))
    expected = [expect(plan, inputs, score, seed, sampling) for inputs in requests]
    for way in (Way(), *data.draw(st.lists(ways(), min_size=different_ways - 1, max_size=different_ways - 1))):
        found = run(plan, requests, hashed(), way, seed=seed, sampling=sampling)
        for one, other in zip(found, expected, strict=True):
            if not is_excused(one, way):
                check_same(one, other)


def check_model(
    data: st.DataObject,
    plan: Plan,
    kind: tuple[Family, int | None],
    *,
    run_in: Sequence[Way] = (),
    sampling: Sampling | None = None,
) -> None:
    """In float64 on both sides, log-probabilities included."""
    inputs, seed = data.draw(inputs_for(plan)), data.draw(SEEDS)
    sampling = sampling or data.draw(samplings())
    fast, slowest = weights(kind)
    with wide_softmax():
        expected = expect(plan, inputs, slow.logits_of(slowest), seed, sampling)
        for way in run_in or [data.draw(ways())]:
            model = TransformersModel(fast, cells=way.cells or PLENTY, check=False)
            [found] = run(plan, [inputs], model, way, seed=seed, sampling=sampling)
            if not is_excused(found, way):
                check_same(found, expected)


def check_stack(data: st.DataObject, plan: Plan) -> None:
    """Each document of a stack gets the answer that it would have had alone."""
    inputs, seed, sampling = data.draw(inputs_for(plan)), data.draw(SEEDS), data.draw(samplings())
    score = slow.scored(hashed_score(VOCABULARY, seed=5))
    alone = [expect(plan, {**inputs, "note": [note]}, score, seed, sampling) for note in inputs["note"]]
    answers = [answer for one in alone if not isinstance(one, slow.Refused) for answer in one]
    assume(len(answers) == len(alone))
    way = data.draw(ways())
    [found] = run(plan, [inputs], hashed(), way, seed=seed, sampling=sampling)
    if not is_excused(found, way):
        check_same(found, answers)


def check_cancelling(data: st.DataObject, plan: Plan) -> None:
    """One of two requests is given up after some steps: the other one keeps its tokens, and no cell is lost."""
    mine, others = data.draw(inputs_for(plan)), data.draw(inputs_for(plan))
    seed, steps, way = data.draw(SEEDS), data.draw(st.integers(0, 12)), data.draw(ways())
    expected = expect(plan, mine, slow.scored(hashed_score(VOCABULARY, seed=5)), seed, Sampling())
    model = hashed()
    model.cells = PLENTY
    engine = engine_for(model, way)
    given_up = engine.stream(plan, others, seed=seed)
    for _ in range(steps):
        next(given_up, None)
    kept = engine.stream(plan, mine, seed=seed)
    events = [event for _ in range(data.draw(st.integers(0, 12))) if (event := next(kept, None)) is not None]
    given_up.close()  # type: ignore[attr-defined]
    engine.check_integrity()
    events += kept
    assert isinstance(events[-1], Done | Failed)
    check_same(events[-1].result if isinstance(events[-1], Done) else events[-1].error, expected)
    check_nothing_is_left(engine)
