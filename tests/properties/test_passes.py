"""Every run takes the passes that its plan forecasts, whatever its values turn out to be."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastalang import DeadEnd, Engine, Limits, Plan, Result, Sampling
from pastalang.plan.dependencies import passes_of
from pastalang.plan.forecast import totals_of
from pastalang.plan.simulate import simulate
from pastalang.plan.token_bounds import Lengths
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.scheduler.state import RequestState
from pastalang.runtime.step import StepBatch
from pastalang.testing.fakes import FakeModel
from pastalang.testing.strategies import programs
from tests.properties.cases import planned
from tests.properties.models import LIKED, WORDS, tokenizer_of
from tests.properties.sources import compiled, sources

TEXTS = ("", "a", "a 12", 'q " w, 3\n x', "end\n- so: ")
FEW = settings(max_examples=18, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))


class Noise:
    """A `Model` of random logits that likes some tokens: quotes, breaks, ends."""

    def __init__(self, tokenizer: Any, choices: random.Random, cells: int) -> None:
        self.vocabulary = 1 + max(tokenizer.get_vocab().values())
        self.cells = cells
        self.max_position = 1 << 20
        self.dtype = torch.float32
        self.device = torch.device("cpu")
        self.probe_tokens, self.carried = None, FakeModel.carried
        self._noise = np.random.default_rng(choices.randrange(1 << 30))
        self._liking = np.zeros(self.vocabulary)
        liked = [*map(ord, LIKED), *range(256, self.vocabulary)]
        self._liking[[token for token in liked if choices.random() < 0.6]] = choices.choice((0.0, 3.0, 6.0, 9.0))

    def forward(self, batch: StepBatch) -> torch.Tensor:
        noise = self._noise.standard_normal((len(batch.wanted), self.vocabulary))
        return torch.from_numpy((2 * noise + self._liking).astype(np.float32))


@cache
def guides_of(name: str) -> GuideCache:
    tokenizer = tokenizer_of(name)
    encoder = Encoder(tokenizer)
    size = 1 + max(tokenizer.get_vocab().values())
    return GuideCache(Tokens(vocabulary_of(tokenizer, size=size, ends=encoder.ends, encode=encoder.text)))


class Counter:
    """Counts for a forecast as the engine's tokenizer does."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def encode(self, text: str) -> list[int]:
        return list(self._encoder.text(text))


def plans() -> st.SearchStrategy[Plan]:
    return planned(st.one_of(sources().map(compiled), sources().map(compiled), programs()))


def inputs_of(plan: Plan, choices: random.Random) -> Mapping[str, Any]:
    """Lists of up to three texts; short texts, empty ones among them."""
    known = {"points": [choices.choice(TEXTS) for _ in range(choices.randrange(4))]}
    for input in plan.inputs:
        if input.name not in known:
            texts = [choices.choice(TEXTS) for _ in range(choices.randrange(1, 4))]
            known[input.name] = texts if input.each else texts[0]  # type: ignore[assignment]
    return known


def check_passes(plan: Plan, tokenizer: str, seed: int) -> None:
    """Two batches on one engine: the second one finds the prompts kept. Repairs come behind the first answer."""
    choices = random.Random(seed)
    is_small = choices.random() < 0.2
    chunk = choices.choice((None, None, 1, 5, 16))
    keeps_prompts = choices.random() < 0.5
    runner = Engine(
        Noise(tokenizer_of(tokenizer), choices, cells=400 if is_small else 1 << 15),
        tokenizer_of(tokenizer),
        guides=guides_of(tokenizer),
        limits=Limits(chunk=chunk),
        prefix_cells=None if keeps_prompts else 0,
    )
    below = choices.choice((None, None, 0.5)) if plan.output is not None else None
    sampling = Sampling(temperature=choices.choice((0.0, 1.0, 1.0, 2.0)))
    for _ in range(2):
        inputs = [inputs_of(plan, choices) for _ in range(choices.choice((1, 1, 2)))]
        with patch.object(runner.scheduler, "submit", wraps=runner.scheduler.submit) as submit:
            found = runner.batch(plan, inputs, seed=seed, sampling=sampling, retry_below=below)
        requests = [call.args[0] for call in submit.call_args_list]
        if not requests:
            assert all(isinstance(one, DeadEnd) for one in found), "only a limit that leaves no value is refused"
            return
        for outcome, request, values in zip(found, requests, inputs, strict=True):
            message = str(outcome)
            assert isinstance(outcome, Result) or not ("internal" in message or "our mistake" in message), message
            if isinstance(outcome, Result):
                check_counts(plan, outcome, request, chunk=chunk, may_wait=is_small)
                check_bounds(plan, request, runner.encoder, values)


def check_counts(plan: Plan, result: Result, request: RequestState, *, chunk: int | None, may_wait: bool) -> None:
    usage = result.usage
    taken = usage.forward_passes - usage.repair_passes
    said = simulate(plan, request.run_log(chunk=chunk)).passes
    assert said == usage.critical_path
    assert taken >= said if may_wait else taken == said


def check_bounds(plan: Plan, request: RequestState, encoder: Encoder, values: Mapping[str, Any]) -> None:
    items = {name: len(value) for name, value in values.items() if isinstance(value, list)}
    lengths = Lengths(Counter(encoder), items=items)
    run_log = request.run_log()
    passes, draws = passes_of(plan, lengths), totals_of(plan, lengths).draws
    assert passes.low <= simulate(plan, run_log).passes <= passes.high
    assert draws.low <= simulate(plan, run_log).draws <= draws.high


@FEW
@given(plans(), st.sampled_from(sorted(WORDS)), st.integers(0, 1 << 16))
def test_a_run_takes_the_passes_of_its_forecast(plan: Plan, tokenizer: str, seed: int) -> None:
    check_passes(plan, tokenizer, seed)


@pytest.mark.long
@MANY
@given(plans(), st.sampled_from(sorted(WORDS)), st.integers(0, 1 << 16))
def test_ten_thousand_runs_take_the_passes_of_their_forecasts(plan: Plan, tokenizer: str, seed: int) -> None:
    check_passes(plan, tokenizer, seed)
