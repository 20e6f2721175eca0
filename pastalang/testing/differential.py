"""The engine against the slow decoder: what both make of one plan comes in, a sentence about the first difference
goes out, as a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pastalang.errors import PastaError
from pastalang.plan.plan import Plan
from pastalang.program.types import Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan, MakeGuide
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.runtime.errors import DeadEnd, RunError
from pastalang.runtime.repair.policy import Policy
from pastalang.runtime.result import Answer, Invalid, Result
from pastalang.testing import slow

EXACT = 1e-9


def check_exact(
    engine: Engine,
    plan: Plan,
    inputs: Mapping[str, Any],
    logits: slow.Logits,
    *,
    seed: int = 0,
    sampling: Sampling | None = None,
) -> None:
    """Run both and compare. `logits` are those of the engine's model, in its precision."""
    expected = slowly(plan, inputs, logits, engine.encoder, guides_for(engine), seed=seed, sampling=sampling)
    [found] = engine.batch(plan, [inputs], seed=seed, sampling=sampling)
    check_same(found, expected)


def slowly(
    plan: Plan,
    inputs: Mapping[str, Any],
    logits: slow.Logits,
    encoder: Encoder,
    make_guide: MakeGuide,
    *,
    seed: int = 0,
    sampling: Sampling | None = None,
    policy: Policy | None = None,
) -> slow.Decoded | slow.Refused:
    """What the slow decoder makes of it: answers, or that it refuses. What no run can be made of is refused before."""
    try:
        BoundPlan(plan, encoder, make_guide).check_limits()
    except DeadEnd as problem:
        return slow.Refused(problem.code, str(problem))
    try:
        return slow.decode(
            plan, inputs, logits=logits, encoder=encoder, make_guide=make_guide, seed=seed, sampling=sampling,
            policy=policy,
        )  # fmt: skip
    except slow.Refused as problem:
        return problem


def guides_for(engine: Engine) -> MakeGuide:
    """Guides for the tokenizer and the model of an engine, none of them its own."""
    encoder = engine.encoder
    vocabulary = vocabulary_of(
        encoder.tokenizer, size=engine.model.vocabulary, ends=encoder.ends, encode=encoder.text
    )  # fmt: skip
    return GuideCache(Tokens(vocabulary))


def check_same(found: Result | PastaError, expected: slow.Decoded | slow.Refused) -> None:
    """Text, typed values, tokens and whether they were cut; log-probabilities up to rounding; what was drawn, and how
    often what was decoded again; or the same error."""
    if isinstance(expected, slow.Refused):
        assert isinstance(found, RunError), f"the slow decoder refuses: {expected}"
        assert found.code == expected.code, f"{found.code} ({found}), the slow decoder says {expected.code}: {expected}"
        return
    assert isinstance(found, Invalid) == expected.is_refused
    result = found.result if isinstance(found, Invalid) else found
    _check_answers(result, expected.answers, loops=0)
    assert isinstance(result, Result)
    assert result.problems == expected.problems, f"{result.problems}, slowly {expected.problems}"
    assert result.usage.attempts == expected.attempts, "not as many attempts"
    assert result.usage.output_tokens == expected.cost.drawn, "not as many draws"
    assert result.usage.repair_tokens == expected.cost.drawn - expected.first.drawn, "not as many draws again"


def check_answers(found: Result | PastaError, alone: Sequence[slow.Answer]) -> None:
    """A stack against its documents alone: the same but for the numbers of the documents."""
    _check_answers(found, alone, loops=1)


def _check_answers(found: Result | PastaError, expected: Sequence[slow.Answer], *, loops: int) -> None:
    assert isinstance(found, Result), found
    assert len(found.answers) == len(expected), "not as many answers"
    for answer, other in zip(found.answers, expected, strict=True):
        _check_answer(answer, other, loops)


def _check_answer(found: Answer, expected: slow.Answer, loops: int) -> None:
    """`loops`: how many of the outermost ones may count differently."""
    assert [(one.path, one.items[loops:]) for one in found.fields] == [
        (one.hole.field, one.items[loops:]) for one in expected.fields
    ], "other fields"
    for one, other in zip(found.fields, expected.fields, strict=True):
        where = f"`{one.path}` {list(one.items)}"
        assert one.tokens == tuple(other.tokens), f"{where}: {one.tokens}, slowly {tuple(other.tokens)}"
        pairs = zip(one.log_probabilities, other.log_probabilities, strict=True)
        assert all(abs(mine - right) <= EXACT for mine, right in pairs), f"{where}: other log-probabilities"
        assert (one.text, one.truncated) == (other.text, other.truncated), f"{where}: another text"
        assert (one.attempts, one.problem) == (other.attempts, other.problem), (
            f"{where}: {one.attempts} attempts, {one.problem}, slowly {other.attempts}, {other.problem}"
        )
    assert found.thinking == expected.thinking, f"{found.thinking!r} was thought, slowly {expected.thinking!r}"
    assert found.text == expected.text, f"{found.text!r}, slowly {expected.text!r}"
    assert found.value == expected.value, f"{found.value!r}, slowly {expected.value!r}"
