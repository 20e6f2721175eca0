"""Models without weights: a test chooses the logits of every token."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.attention.plain_views import FedToken, PlainViews
from pastalang.runtime.models.carried import EVERYTHING, Carried
from pastalang.runtime.models.probe_tokens import ProbeTokens
from pastalang.runtime.step import StepBatch

Scores: TypeAlias = Sequence[float] | NDArray[np.float64]
Score: TypeAlias = Callable[[FedToken], Scores]

_POSITIVE = (1 << 63) - 1


class FakeModel:
    """A `Model` whose logits are `score(token)`. `steps` records every step that it was fed, `fed` every token."""

    probe_tokens: ProbeTokens | None = None
    carried: Carried = EVERYTHING

    def __init__(self, score: Score, *, vocabulary: int, cells: int = 1 << 16, max_position: int = 1 << 20) -> None:
        self.vocabulary = vocabulary
        self.cells = cells
        self.max_position = max_position
        self.dtype = torch.float32
        self.device = torch.device("cpu")
        self.steps: list[StepBatch] = []
        self.fed: list[FedToken] = []
        self._score = score
        self._views = PlainViews()

    def forward(self, batch: StepBatch) -> torch.Tensor:
        fed = self._views.feed(batch)
        self.steps.append(batch)
        self.fed += fed
        logits = torch.zeros(len(batch.wanted), self.vocabulary, dtype=self.dtype)
        for row, index in enumerate(batch.wanted):
            logits[row] = torch.as_tensor(self._score(fed[index]), dtype=self.dtype)
        return logits


def uniform_model(vocabulary: int) -> FakeModel:
    """Every token is as likely as every other."""
    return FakeModel(lambda _: [0.0] * vocabulary, vocabulary=vocabulary)


def scripted_model(script: Callable[[FedToken], int], vocabulary: int, *, certainty: float = 20.0) -> FakeModel:
    """`script` gives the next token, whose logit is `certainty`. All other logits are 0."""

    def score(fed: FedToken) -> list[float]:
        logits = [0.0] * vocabulary
        logits[script(fed)] = certainty
        return logits

    return FakeModel(score, vocabulary=vocabulary)


def hashed_model(vocabulary: int, *, seed: int = 0, spread: float = 2.0) -> FakeModel:
    """Random logits that depend on everything a token sees. One token more, less or elsewhere changes all of them."""
    return FakeModel(hashed_score(vocabulary, seed=seed, spread=spread), vocabulary=vocabulary)


class SeenToken(Hashable, Protocol):
    """A token that knows which tokens it sees, in order."""

    @property
    def token(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def sees(self) -> Sequence[SeenToken]: ...


def hashed_score(vocabulary: int, *, seed: int = 0, spread: float = 2.0) -> Callable[[SeenToken], Scores]:
    """The logits of `hashed_model`, for tokens of any kind."""
    known: dict[SeenToken, int] = {}

    def digest(fed: SeenToken) -> int:
        if fed not in known:
            for seen in fed.sees:
                if seen not in known:
                    digest(seen)
            known[fed] = hash((seed, fed.token, fed.position, *map(known.__getitem__, fed.sees)))
        return known[fed]

    def score(fed: SeenToken) -> Scores:
        chance = np.random.Generator(np.random.PCG64(digest(fed) & _POSITIVE))
        return chance.standard_normal(vocabulary) * spread

    return score
