"""What the options of a choice weigh, against every way to write every option, one token at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Engine, Limits, Mode, Result
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.scheduler import probes
from pastalang.runtime.scheduler.state import BranchState
from pastalang.testing.fakes import Scores, hashed_model, hashed_score
from tests.properties.splitting import TOKENIZERS, tools

WORDS = ("a", "ab", "abc", "b", "ba", "new", "news", "network", "Sony", "Sonata", "so", "größer", "größe", "日", "日本")
OPTIONS = st.lists(st.sampled_from(WORDS), min_size=2, max_size=6, unique=True)
KINDS = pytest.mark.parametrize("kind", TOKENIZERS)


def program(*lists: list[str]) -> pastalang.Program:
    fields = "\n".join(
        f"  f{number}: " + " | ".join(f'"{option}"' for option in options) for number, options in enumerate(lists)
    )
    return pastalang.compile(f'template t\n\nuser """\nhi\n"""\n\nassistant json {{\n{fields}\n}}\n')


def every_way(
    fed: FedToken, state: State, score: Callable[[FedToken], Scores], weight: float = 1.0
) -> dict[str, float]:
    """By option: the sum over all ways to spell it of the product of the tokens' probabilities."""
    state = state.fork()
    while not state.is_finished and (forced := state.forced()):
        for token in forced:
            fed = behind(fed, token)
            state.advance(token)
    if state.is_finished:
        return {state.text: weight}
    allowed = tokens_of(state.allowed())
    logits = np.asarray(score(fed), dtype=np.float32).astype(np.float64)[allowed]  # a model's logits are no doubles
    chances = np.exp(logits - logits.max())
    found: dict[str, float] = {}
    for token, chance in zip(allowed.tolist(), (chances / chances.sum()).tolist(), strict=True):
        after = state.fork()
        after.advance(token)
        for option, share in every_way(behind(fed, token), after, score, weight * chance).items():
            found[option] = found.get(option, 0.0) + share
    return found


def behind(fed: FedToken, token: int) -> FedToken:
    return FedToken(token, fed.position + 1, -1, fed.path)  # type: ignore[arg-type]


def weighed(engine: Engine, asked: Any, **options: Any) -> tuple[Result, dict[str, State]]:
    """A run with details, and the state of each choice as its first token was drawn."""
    states: dict[str, State] = {}

    def noted(branch: BranchState, shares: Any) -> None:
        assert branch.pending.hole is not None
        states.setdefault(branch.pending.hole.field.path, branch.pending.hole.state.fork())
        probe_options(branch, shares)

    probe_options = probes.probe_options
    with patch.object(probes, "probe_options", noted):
        return engine.run(asked, {}, details=True, **options), states


@KINDS
@settings(max_examples=7, deadline=None)
@example(lists=[["a", "ab"], ["a", "ab", "abc", "b"]], seed=0)
@given(lists=st.lists(OPTIONS, min_size=1, max_size=3), seed=st.integers(0, 1 << 16))
def test_options_weigh_what_all_ways_to_write_them_weigh(kind: str, lists: list[list[str]], seed: int) -> None:
    tokenizer, _, _ = tools(kind)
    model = hashed_model(len(tokenizer), seed=seed)
    engine = Engine(model, tokenizer, prefix_cells=0)
    result, states = weighed(engine, program(*lists))
    [first] = [step for step in model.steps if step.wanted][:1]
    # rows come in the order of the step, fields in that of the answer
    begins = sorted((model.fed[: len(first)][index] for index in first.wanted), key=lambda fed: fed.position)
    fields = [field for field in result.fields if field.path in states]
    assert len(begins) == len(fields)
    score = hashed_score(len(tokenizer), seed=seed)
    for field, begin in zip(fields, begins, strict=True):
        assert dict(field.options or ()) == pytest.approx(every_way(begin, states[field.path], score), abs=1e-9)
        assert dict(field.options or ())[field.text] >= field.confidence * (1 - 1e-6)
    assert engine.scheduler.memory.cells.in_use == 0


@KINDS
@settings(max_examples=10, deadline=None)
@given(lists=st.lists(OPTIONS, min_size=1, max_size=3), seed=st.integers(0, 1 << 16), data=st.data())
def test_weighing_changes_nothing_but_one_pass(kind: str, lists: list[list[str]], seed: int, data: Any) -> None:
    tokenizer, _, _ = tools(kind)
    mode = data.draw(st.sampled_from(Mode))
    asked = program(*lists)

    def engine(**options: Any) -> Engine:
        return Engine(hashed_model(len(tokenizer), seed=seed), tokenizer, **options)

    plain = engine().run(asked, {}, mode=mode)
    alone = engine()
    result = alone.run(asked, {}, mode=mode, details=True)
    alone.check_integrity()
    assert (result.text, result.usage.critical_path) == (plain.text, plain.usage.critical_path)
    assert [field.tokens for field in result.fields] == [field.tokens for field in plain.fields]
    assert result.usage.output_tokens == plain.usage.output_tokens
    assert 0 <= result.usage.forward_passes - plain.usage.forward_passes <= 1
    chunked = engine(limits=Limits(chunk=data.draw(st.integers(1, 5))))
    for found in chunked.batch(asked, [{}, {}, {}], mode=mode, details=True):
        assert isinstance(found, Result)
        assert [field.options for field in found.fields] == [field.options for field in result.fields]
    chunked.check_integrity()


def test_a_memory_without_room_for_it_leaves_options_out() -> None:
    tokenizer, _, _ = tools(next(iter(TOKENIZERS)))
    asked = program(["news", "new", "network", "ab", "abc"])
    roomy = Engine(hashed_model(len(tokenizer), seed=3), tokenizer, prefix_cells=0)
    plain = roomy.run(asked, {})
    model = hashed_model(len(tokenizer), seed=3)
    model.cells = plain.usage.peak_cells
    tight = Engine(model, tokenizer, prefix_cells=0)
    result = tight.run(asked, {}, details=True)
    assert result.text == plain.text
    assert tight.scheduler.memory.cells.in_use == 0
    shares = sum(share for _, share in result.fields[0].options or ())
    assert shares < sum(share for _, share in roomy.run(asked, {}, details=True).fields[0].options or ()) <= 1 + 1e-9


@pytest.mark.parametrize("events", [0, 1, 2, 3])
def test_a_run_that_is_given_up_gives_back_what_stood_aside(events: int) -> None:
    tokenizer, _, _ = tools("bytes")
    engine = Engine(hashed_model(len(tokenizer), seed=3), tokenizer, prefix_cells=0)
    stream = engine.stream(program(["news", "new", "network"], ["ab", "abc"]), {}, details=True)
    for _ in range(events):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    engine.check_integrity()
    assert engine.scheduler.memory.cells.in_use == 0


@KINDS
def test_what_is_decoded_again_is_weighed_again(kind: str) -> None:
    tokenizer, _, _ = tools(kind)
    asked = program(["news", "new", "network"], ["ab", "abc"])
    found = []
    for details_too in (False, True):
        engine = Engine(hashed_model(len(tokenizer), seed=3), tokenizer, prefix_cells=0)
        found.append(engine.run(asked, {}, retry_below=0.999, repair=2, details=details_too))
        assert engine.scheduler.memory.cells.in_use == 0
    plain, result = found
    assert (result.text, result.usage.attempts) == (plain.text, plain.usage.attempts)
    for field in result.fields:
        assert sum(share for _, share in field.options or ()) == pytest.approx(1.0)
