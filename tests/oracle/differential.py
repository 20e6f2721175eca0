"""Compare the engine with the slow decoder. A check fails with a sentence about the first difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pastalang import Answer, DeadEnd, Engine, Invalid, PastaError, Plan, Result, RunError, Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan, MakeGuide
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.repair.validation import Policy
from tests import oracle

EXACT = 1e-9


def check_exact(
    engine: Engine,
    plan: Plan,
    inputs: Mapping[str, Any],
    logits: oracle.Logits,
    *,
    seed: int = 0,
    sampling: Sampling | None = None,
) -> None:
    """Run a plan with both and compare the results. `logits` are those of the engine's model, in its precision."""
    expected = decode_slowly(plan, inputs, logits, engine.encoder, guides_for(engine), seed=seed, sampling=sampling)
    [found] = engine.batch(plan, [inputs], seed=seed, sampling=sampling)
    check_same(found, expected)


def decode_slowly(
    plan: Plan,
    inputs: Mapping[str, Any],
    logits: oracle.Logits,
    encoder: Encoder,
    make_guide: MakeGuide,
    *,
    seed: int = 0,
    sampling: Sampling | None = None,
    policy: Policy | None = None,
) -> oracle.Decoded | oracle.Refused:
    """The answers of the slow decoder, or its refusal. A plan whose values cannot fit is refused before it runs."""
    try:
        BoundPlan(plan, encoder, make_guide).check_limits()
    except DeadEnd as problem:
        return oracle.Refused(problem.code, str(problem))
    try:
        return oracle.decode(
            plan, inputs, logits=logits, encoder=encoder, make_guide=make_guide, seed=seed, sampling=sampling,
            policy=policy,
        )  # fmt: skip
    except oracle.Refused as problem:
        return problem


def guides_for(engine: Engine) -> MakeGuide:
    """New guides for the tokenizer and the model of an engine, which share nothing with those of the engine."""
    encoder = engine.encoder
    vocabulary = vocabulary_of(
        encoder.tokenizer, size=engine.model.vocabulary, ends=encoder.ends, encode=encoder.text
    )  # fmt: skip
    return GuideCache(Tokens(vocabulary))


def check_same(found: Result | PastaError, expected: oracle.Decoded | oracle.Refused) -> None:
    """Check that two results are equal: text, values, tokens, truncation, attempts and draws, or the same error.

    Log-probabilities may differ by rounding.
    """
    if isinstance(expected, oracle.Refused):
        assert isinstance(found, RunError), f"the slow decoder refuses: {expected}"
        assert found.code == expected.code, f"{found.code} ({found}), the slow decoder says {expected.code}: {expected}"
        return
    assert isinstance(found, Invalid) == expected.is_refused
    result = found.result if isinstance(found, Invalid) else found
    _check_answers(result, expected.answers, loops=0)
    assert isinstance(result, Result)
    assert result.problems == expected.problems, f"{result.problems}, the slow decoder: {expected.problems}"
    assert result.usage.attempts == expected.attempts, "another number of attempts"
    assert result.usage.output_tokens == expected.cost.drawn, "another number of draws"
    assert result.usage.repair_tokens == expected.cost.drawn - expected.first.drawn, "another number of repair draws"


def check_answers(found: Result | PastaError, alone: Sequence[oracle.Answer]) -> None:
    """Check a stack against its documents alone. They may differ only in the numbers of the documents."""
    _check_answers(found, alone, loops=1)


def _check_answers(found: Result | PastaError, expected: Sequence[oracle.Answer], *, loops: int) -> None:
    assert isinstance(found, Result), found
    assert len(found.answers) == len(expected), "another number of answers"
    for answer, other in zip(found.answers, expected, strict=True):
        _check_answer(answer, other, loops)


def _check_answer(found: Answer, expected: oracle.Answer, loops: int) -> None:
    """The item numbers of the outermost `loops` may differ."""
    assert [(one.path, one.items[loops:]) for one in found.fields] == [
        (one.hole.field, one.items[loops:]) for one in expected.fields
    ], "other fields"
    for one, other in zip(found.fields, expected.fields, strict=True):
        where = f"`{one.path}` {list(one.items)}"
        assert one.tokens == tuple(other.tokens), f"{where}: {one.tokens}, the slow decoder: {tuple(other.tokens)}"
        pairs = zip(one.log_probabilities, other.log_probabilities, strict=True)
        assert all(abs(mine - right) <= EXACT for mine, right in pairs), f"{where}: other log-probabilities"
        assert (one.text, one.truncated) == (other.text, other.truncated), f"{where}: another text"
        assert (one.attempts, one.problem) == (other.attempts, other.problem), (
            f"{where}: {one.attempts} attempts, {one.problem}, the slow decoder: {other.attempts}, {other.problem}"
        )
    assert found.thinking == expected.thinking, f"{found.thinking!r}, the slow decoder: {expected.thinking!r}"
    assert found.text == expected.text, f"{found.text!r}, the slow decoder: {expected.text!r}"
    assert found.value == expected.value, f"{found.value!r}, the slow decoder: {expected.value!r}"
