"""Two twins of one random model in float64: the fast one that is tested, and the weights for its reference."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch

from pastalang.runtime.attention.clusters import Costs
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.models.reference import reference_logits
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.step import StepBatch
from tests.oracle.toy_models import Family, toy_model
from tests.runtime.float64 import in_float64, wide_softmax
from tests.runtime.walk import Walk

CELLS = 320
EXACT = 1e-9


@dataclass
class Twins:
    fast: TransformersModel
    weights: Any

    def error(self, logits: torch.Tensor, tokens: list[FedToken]) -> float:
        """The largest difference to what the reference gives for these tokens."""
        with wide_softmax():
            expected = [reference_logits(self.weights, token) for token in tokens]
        return max((float((row - other).abs().max()) for row, other in zip(logits, expected, strict=True)), default=0.0)


WHOLE = Costs(small_step=1 << 60)  # every step in one piece
APART = Costs(
    small_step=0, per_cell=0, per_cluster=0, per_block=0, stretch=3, shared=1
)  # all attend apart where they can


def twins(
    family: Family, *, seed: int = 0, window: int | None = None, costs: Costs | None = None, **sizes: Any
) -> Twins:
    def build() -> Any:
        return in_float64(toy_model(family, seed=seed, window=window, **sizes))

    with wide_softmax():
        return Twins(TransformersModel(build(), cells=CELLS, check=False, costs=costs), build())


def worst_error(pair: Twins, walk: Walk, *, steps: int) -> float:
    """Feed a walk to the model and compare every wanted token with the reference."""
    worst = 0.0
    for _ in range(steps):
        batch = walk.step()
        worst = max(worst, pair.error(pair.fast.forward(batch), wanted(walk, batch)))
    return worst


def wanted(walk: Walk, batch: StepBatch) -> list[FedToken]:
    return [walk.fed[index] for index in batch.wanted]


def walk_of(seed: int) -> Walk:
    return Walk(random.Random(seed), cells=CELLS)
