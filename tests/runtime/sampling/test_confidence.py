"""The masked probability, the weights of a choice's options, and fields into which no value fits."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from pastalang import DeadEnd, Engine, Plan, Result, RunError
from pastalang.plan.branches import Hole
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.guide import Guide, NoEndingFits, State
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.sampling.confidence import Shares
from pastalang.runtime.scheduler import probes
from pastalang.runtime.scheduler.state import BranchState
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model, uniform_model
from tests.runtime.repair.test_review import engine, program

_TOKENIZER = Encoder(byte_tokenizer())
SHELF = GuideCache(
    Tokens(vocabulary_of(_TOKENIZER.tokenizer, size=320, ends=_TOKENIZER.ends, encode=_TOKENIZER.text))
)  # fmt: skip


def test_the_options_of_a_choice_have_the_probabilities_that_the_model_gives_them() -> None:
    weights = {"t": 3.0, "p": 2.0, "r": 1.0, "z": 4.0}
    logits = [math.log(weights.get(chr(token), 1e-3)) if token < 256 else -9.0 for token in range(320)]
    runner = Engine(FakeModel(lambda _: logits, vocabulary=320), byte_tokenizer())
    [field] = runner.run(program('  a: "tv" | "phone" | "radio"'), {}, details=True).fields
    assert field.options is not None
    found = dict(field.options)
    assert list(found) == ['"tv"', '"phone"', '"radio"'], "the likeliest first"
    assert list(found.values()) == pytest.approx([3 / 6, 2 / 6, 1 / 6])
    assert field.confidence == pytest.approx(found[field.text])
    share = torch.tensor(logits).softmax(0)
    assert field.masked_probability == pytest.approx([1 - float(share[[ord(first) for first in "tpr"]].sum())])


def test_details_that_go_wrong_end_their_own_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(branch: BranchState, shares: Shares) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(probes, "probe_options", broken)
    runner = Engine(uniform_model(320), byte_tokenizer(), prefix_cells=0)
    chosen, free = program('  a: "tv" | "phone"'), program("  a: integer(1..5)")

    async def both() -> list[Any]:
        runs = (runner.arun(one, {}, details=True) for one in (chosen, free))
        return await asyncio.gather(*runs, return_exceptions=True)

    failed, fine = asyncio.run(both())
    assert isinstance(failed, RunError) and isinstance(fine, Result)
    runner.check_integrity()
    assert runner.scheduler.memory.cells.in_use == 0


class Full:
    """A guide of a type that has no value as short as that."""

    shortest = 9

    def start(self, *, max_tokens: int) -> State:
        raise NoEndingFits(f"no value fits into {max_tokens} tokens; the shortest takes 9")


def nothing_fits_into_a(hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Guide:
    return Full() if hole.field == "a" else SHELF(hole, plan, sources)


def test_a_field_that_no_value_fits_into_is_null_and_says_why() -> None:
    runner = Engine(hashed_model(320), byte_tokenizer(), guides=nothing_fits_into_a)
    result = runner.run(program("  a: string(max=3) | null\n  b: integer(1..5)\n  c: string(max=4) after a"), {})
    [field, *others] = result.fields
    assert field.value is None and field.problem is not None and "fits" in field.problem
    assert all(other.problem is None for other in others)
    assert json.loads(result.text) == result.value and result.value["a"] is None
    runner.check_integrity()


def test_a_field_that_no_value_fits_into_and_that_may_not_be_null_is_an_error_that_names_it() -> None:
    runner = engine(prefix_cells=0)
    with pytest.raises(DeadEnd) as caught:
        runner.run(program("  a: /[a-z]{9}/(max=2)\n  b: integer(1..5)"), {})
    assert caught.value.field == "a" and caught.value.line == 6
    runner.check_integrity()
    assert runner.scheduler.memory.cells.in_use == 0
