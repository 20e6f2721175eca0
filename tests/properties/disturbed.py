"""Models with something wrong around them: noise wherever a token does not look, or a step that fails."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import torch

from pastalang.runtime.attention.kv_cache import KVCache
from pastalang.runtime.attention.plain_views import FedToken, PlainViews
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.step import StepBatch, TokenId
from tests.properties.models import Weights

CELLS = 1024


class Disturbed:
    """A model with a twin. Before each step, all that one of the wanted tokens must not see is noise in the twin."""

    def __init__(self, weights: Weights, *, seed: int) -> None:
        self.calm: Any = weights.model(CELLS)
        self.noisy: Any = weights.model(CELLS)
        self.views = PlainViews()
        self.noise = torch.Generator().manual_seed(seed)
        self.chance = random.Random(seed)
        self.compared = 0
        self.worst = 0.0
        self.fed: list[FedToken] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.calm, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        fed = self.views.feed(batch)
        self.fed += fed
        expected: torch.Tensor = self.calm.forward(batch)
        if batch.wanted:
            row = self.chance.randrange(len(batch.wanted))
            found = self.noisy.forward(self._disturb(batch, fed, fed[batch.wanted[row]]))
            self.compared += 1
            self.worst = max(self.worst, float((found[row] - expected[row]).abs().max()))
        else:
            self.noisy.forward(batch)
        copy_cells(self.noisy.kv_cache, self.calm.kv_cache)
        return expected

    def _disturb(self, batch: StepBatch, fed: tuple[FedToken, ...], token: FedToken) -> StepBatch:
        seen = {id(one) for one in token.path}
        cells = sorted({*range(CELLS)} - {one.cell for one in token.path})
        self.noisy.kv_cache.overwrite(torch.tensor(cells, dtype=torch.long), self.noise)
        others = (TokenId(self.chance.randrange(256)) for _ in fed)
        tokens = (one.token if id(one) in seen else other for one, other in zip(fed, others, strict=True))
        return replace(batch, tokens=tuple(tokens))


def copy_cells(to: KVCache, source: KVCache) -> None:
    for ours, theirs in ((to._keys, source._keys), (to._values, source._values)):
        for held, right in zip(ours, theirs, strict=True):
            assert held is not None and right is not None
            with torch.inference_mode():
                held.copy_(right)


class Failing:
    """A model that breaks at one step, once."""

    def __init__(self, inner: Model, step: int) -> None:
        self.inner = inner
        self.left = step

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        self.left -= 1
        if self.left == 0:
            raise ConnectionError("the device is gone")
        return self.inner.forward(batch)
