"""Limits of the runtime, each at the last value that is within it and at the first that is not."""

from __future__ import annotations

import re
from itertools import product

import pytest
import torch

import pastalang
from pastalang import Engine, TooLong
from pastalang.runtime.scheduler.probes import WAYS
from pastalang.runtime.scheduler.step_budget import StepBudget
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model

PROGRAM = pastalang.compile(
    'template t(title: text)\nuser """\n{title}\n"""\nassistant json { brand: string(max=8), stars: integer(1..5) }\n'
)


def fits(max_position: int) -> bool:
    model = hashed_model(320, seed=1)
    model.max_position = max_position
    try:
        Engine(model, byte_tokenizer()).run(PROGRAM, {"title": "x"})
    except TooLong:
        return False
    return True


def test_an_answer_may_reach_the_last_position_of_the_model_and_none_behind_it() -> None:
    low, high = 0, 400
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    model = hashed_model(320, seed=1)
    model.max_position = low
    with pytest.raises(TooLong, match=re.escape(f"reaches position {high}, and the model's last one is {low}")):
        Engine(model, byte_tokenizer()).run(PROGRAM, {"title": "x"})


class Short(FakeModel):
    """A device that has memory for steps of `most` tokens."""

    most = 1 << 15

    def forward(self, batch: StepBatch) -> torch.Tensor:
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().forward(batch)


def test_a_step_that_could_not_be_run_is_not_counted() -> None:
    model = Short(lambda _: [0.0] * 320, vocabulary=320)
    model.most = 6
    engine = Engine(model, byte_tokenizer(), prefix_cells=0)
    result = engine.run(PROGRAM, {"title": "x"})
    assert engine.scheduler.forward_passes == len(model.steps) == result.usage.forward_passes


def test_larger_steps_are_tried_after_64_that_went_well_one_after_another() -> None:
    budget = StepBudget(1 << 10)
    assert budget.shrink(100)
    for _ in range(63):
        budget.step_succeeded()
    assert budget.most == 50
    assert budget.shrink(50)
    for _ in range(63):
        budget.step_succeeded()
    assert budget.most == 25, "the count begins anew with each shortage"
    budget.step_succeeded()
    assert budget.most == 50


def test_a_step_of_one_token_cannot_be_smaller() -> None:
    budget = StepBudget(1 << 10)
    assert budget.shrink(2) and budget.most == 1
    assert not budget.shrink(1)


def test_no_more_ways_into_a_choice_are_weighed_than_its_likeliest() -> None:
    """243 options with 120 ways into them."""
    options = " | ".join(f'"{"".join(word)}"' for word in product("abc", repeat=5))
    program = pastalang.compile(f'template t()\nuser """\nGo.\n"""\nassistant json {{ a: {options} }}\n')
    model = hashed_model(320, seed=1)
    [field] = Engine(model, byte_tokenizer()).run(program, {}, details=True).fields
    plain = hashed_model(320, seed=1)
    assert field.text == Engine(plain, byte_tokenizer()).run(program, {}).fields[0].text
    looked_at = sum(len(step.wanted) for step in model.steps) - sum(len(step.wanted) for step in plain.steps)
    assert 0 < looked_at <= WAYS
    assert sum(share for _, share in field.options or ()) < 1 - 1e-6
