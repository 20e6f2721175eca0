"""Whatever the schedule: the logits are those of the reference, and nothing unseen has any part in them."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang.runtime.attention.clusters import Costs
from tests.oracle.toy_models import Family
from tests.properties.tally import Invariant, count
from tests.runtime.exact import APART, EXACT, WHOLE, Twins, twins, walk_of, worst_error

Kind = tuple[Family, int | None, Costs]
KINDS: list[Kind] = [
    (family, window, costs) for family in Family for window, costs in ((None, APART), (6, WHOLE), (6, APART))
]
SEEDS = st.integers(0, 10**9)


def name_of(kind: Kind) -> str:
    family, window, costs = kind
    return f"{family.value}-{window}-{costs is APART}"


@cache
def pair_of(kind: Kind) -> Twins:
    family, window, costs = kind
    return twins(family, window=window, costs=costs)


every_kind = pytest.mark.parametrize("kind", KINDS, ids=name_of)


def check_walk(kind: Kind, seed: int, *, steps: int = 12) -> None:
    """Drafts are fed and some of them accepted, beside all else that a schedule may do."""
    assert worst_error(pair_of(kind), walk_of(seed), steps=steps) <= EXACT
    count(Invariant.DRAFTS, name_of(kind), seed, steps)


def check_noise(kind: Kind, seed: int) -> None:
    """Before every step, every cell that nothing alive sees is filled with noise."""
    pair, walk, noise = pair_of(kind), walk_of(seed), torch.Generator().manual_seed(seed)
    for _ in range(12):
        pair.fast.kv_cache.overwrite(torch.tensor(walk.unseen()), noise)
        assert worst_error(pair, walk, steps=1) <= EXACT
    count(Invariant.ISOLATION, name_of(kind), seed)


def check_drafts(data: st.DataObject) -> None:
    kind, seed = data.draw(st.sampled_from(KINDS)), data.draw(SEEDS)
    check_walk(kind, seed)
    check_noise(kind, seed)


@every_kind
@given(seed=SEEDS)
@settings(max_examples=1)
def test_every_schedule_gives_the_logits_of_the_reference(kind: Kind, seed: int) -> None:
    check_walk(kind, seed)


@every_kind
@given(seed=SEEDS)
@settings(max_examples=2)
def test_what_a_branch_does_not_see_changes_nothing(kind: Kind, seed: int) -> None:
    check_noise(kind, seed)


@pytest.mark.long
@every_kind
@given(seed=SEEDS)
def test_every_schedule_gives_the_logits_of_the_reference_on_long_walks(kind: Kind, seed: int) -> None:
    check_walk(kind, seed, steps=40)
