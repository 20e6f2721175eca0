"""Random objections to random answers: what is decoded again, and what has to hold whatever is objected to."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model, field_validator

from pastalang.plan.plan import Mode
from pastalang.program.types import Sampling
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import Invalid, Result
from pastalang.runtime.scheduler.step_budget import Limits
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model
from tests.oracle.toy_models import Family
from tests.properties.repairs import fields, program
from tests.properties.test_runtime import Checked
from tests.runtime.repair.test_review import tokens_of

WARM = Sampling(temperature=1.0)
FEW = settings(max_examples=18, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))


def moody(keys: list[str], share: float) -> type[BaseModel]:
    """A model that objects to a share of all values, always to the same ones."""

    class Base(BaseModel):
        @field_validator(*keys, check_fields=False)
        @classmethod
        def judge(cls, value: Any, info: Any) -> Any:
            digest = blake2b(f"{info.field_name}{json.dumps(value)}".encode(), digest_size=4).digest()
            if int.from_bytes(digest) / 2**32 < share:
                raise ValueError("not this one")
            return value

    return create_model("Moody", __base__=Base, **dict.fromkeys(keys, (Any, ...)))


def engine(**options: Any) -> Engine:
    return Engine(hashed_model(320, seed=3), byte_tokenizer(), **options)


def outcome(runner: Engine, asked: Any, **options: Any) -> tuple[Result, bool]:
    try:
        return runner.run(asked, {}, sampling=WARM, **options), True
    except Invalid as problem:
        return problem.result, False
    finally:
        runner.check_integrity()
        assert runner.scheduler.memory.cells.in_use == runner.scheduler.prefix.size


def holds(asked: Any, mode: Mode, share: float, repair: int, seed: int, below: float | None) -> None:
    plain, _ = outcome(engine(), asked, mode=mode, seed=seed)
    keys = list(plain.value)
    model = moody(keys, share)
    runner = engine()
    options: dict[str, Any] = {"mode": mode, "seed": seed, "model": model, "repair": repair, "retry_below": below}
    result, is_valid = outcome(runner, asked, **options)
    assert list(json.loads(result.text)) == keys
    if is_valid:
        assert isinstance(result.value, model) and result.value.model_dump() == json.loads(result.text)
    before = tokens_of(plain)
    for field in result.fields:
        if field.attempts == 1:
            known = before.get((field.path, field.items), field.tokens)  # a list may have got longer
            assert field.tokens == known, "whoever was not decoded again is as it was"
    assert result.usage.forward_passes == plain.usage.forward_passes + result.usage.repair_passes
    assert result.usage.output_tokens == plain.usage.output_tokens + result.usage.repair_tokens
    if mode is not Mode.LOCKSTEP:
        assert isinstance(runner.model, FakeModel)
        check_positions(runner.model.fed)
    other, _ = outcome(engine(limits=Limits(chunk=3), prefix_cells=0), asked, **options)
    assert other.text == result.text, "chunks and a cold memory change nothing"


def check_positions(fed: list[FedToken]) -> None:
    for token in fed:
        positions = [seen.position for seen in token.sees if seen is not token]
        assert len(set(positions)) == len(positions) and all(position < token.position for position in positions)


cases = given(
    asked=fields().map(program), mode=st.sampled_from(Mode), share=st.sampled_from([0.2, 0.5, 0.9]),
    repair=st.integers(0, 3), seed=st.integers(0, 9), below=st.sampled_from([None, None, 0.05, 0.5]),
)  # fmt: skip


@FEW
@cases
def test_only_what_failed_and_what_depends_on_it_changes(
    asked: Any, mode: Mode, share: float, repair: int, seed: int, below: float | None
) -> None:
    holds(asked, mode, share, repair, seed, below)


@pytest.mark.long
@MANY
@cases
def test_only_what_failed_and_what_depends_on_it_changes_in_many_cases(
    asked: Any, mode: Mode, share: float, repair: int, seed: int, below: float | None
) -> None:
    holds(asked, mode, share, repair, seed, below)


@pytest.mark.parametrize("mode", Mode)
def test_what_is_decoded_again_sees_what_the_reference_shows_it(mode: Mode) -> None:
    asked = program(
        "  a: string(max=3)\n  b: [{ n: string(max=3), m: integer(0..9) }](1..2)\n  c: string(max=3) after a, b"
    )
    checked = Checked(Family.LLAMA, 1)
    checked.left = 24
    runner = Engine(checked, byte_tokenizer())  # type: ignore[arg-type]
    result, _ = outcome(runner, asked, mode=mode, model=moody(["a", "b", "c"], 0.8), repair=2)
    assert result.usage.repair_tokens > 0
    assert checked.left < 24 and checked.worst < 1e-9
