"""Whatever the schedule: the logits are those of the reference, and nothing unseen has any part in them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang.runtime.model.toy import Family
from tests.runtime.exact import APART, EXACT, WHOLE, Twins, twins, walk_of, worst_error

KINDS = [(family, window, costs) for family in Family for window, costs in ((None, APART), (6, WHOLE), (6, APART))]
SEEDS = st.integers(0, 10**9)


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0].value}-{kind[1]}-{kind[2] is APART}")
def pair(request: pytest.FixtureRequest) -> Twins:
    family, window, costs = request.param
    return twins(family, window=window, costs=costs)


@given(SEEDS)
@settings(max_examples=3)
def test_every_schedule_gives_the_logits_of_the_reference(pair: Twins, seed: int) -> None:
    assert worst_error(pair, walk_of(seed), steps=12) <= EXACT


@given(SEEDS)
@settings(max_examples=2)
def test_what_a_branch_does_not_see_changes_nothing(pair: Twins, seed: int) -> None:
    """Before every step, every cell that nothing alive sees is filled with noise."""
    walk, noise = walk_of(seed), torch.Generator().manual_seed(seed)
    for _ in range(12):
        pair.fast.pool.overwrite(torch.tensor(walk.unseen()), noise)
        assert worst_error(pair, walk, steps=1) <= EXACT


@pytest.mark.long
@given(SEEDS)
def test_every_schedule_gives_the_logits_of_the_reference_on_long_walks(pair: Twins, seed: int) -> None:
    assert worst_error(pair, walk_of(seed), steps=40) <= EXACT
