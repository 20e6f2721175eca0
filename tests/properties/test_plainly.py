"""The models that are written out give the logits of transformers' own, on random paths."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.oracle.logits import plain_logits_of
from tests.properties.models import FAMILIES, VOCABULARY, Weights, weights
from tests.runtime.float64 import wide_softmax


@pytest.mark.parametrize("kind", FAMILIES, ids=str)
@given(seed=st.integers(0, 1 << 16))
@settings(max_examples=2)
def test_what_is_written_out_is_the_model(kind: Weights, seed: int) -> None:
    """Tokens go on from one of the last three, at positions with gaps."""
    chance = random.Random(seed)
    slowest = weights(kind)[1]
    quick, right = plain_logits_of(slowest), oracle.logits_of(slowest)
    tokens: list[oracle.Token] = []
    for _ in range(16):
        last = chance.choice(tokens[-3:]) if tokens else None
        path = () if last is None else last.path
        tokens.append(oracle.Token(chance.randrange(VOCABULARY), len(path) + chance.choice((0, 0, 1, 50)), path))
        with wide_softmax():
            assert abs(quick(tokens[-1]) - right(tokens[-1])).max() < 1e-12
