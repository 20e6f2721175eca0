"""Models without weights, for tests: what a token sees comes in, logits that a test chose go out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import torch

from pastalang.runtime.batch import StepBatch
from pastalang.runtime.layout.predicate import Fed, PlainViews

Score: TypeAlias = Callable[[Fed], Sequence[float]]


class FakeModel:
    """A `Model` whose logits are `score(token)`. `steps` keeps every step it was fed, `fed` every token."""

    def __init__(self, score: Score, *, vocabulary: int, cells: int = 1 << 16, max_position: int = 1 << 20) -> None:
        self.vocabulary = vocabulary
        self.cells = cells
        self.max_position = max_position
        self.dtype = torch.float32
        self.device = torch.device("cpu")
        self.steps: list[StepBatch] = []
        self.fed: list[Fed] = []
        self._score = score
        self._views = PlainViews()

    def forward(self, batch: StepBatch) -> torch.Tensor:
        fed = self._views.feed(batch)
        self.steps.append(batch)
        self.fed += fed
        logits = torch.zeros(len(batch.wanted), self.vocabulary)
        for row, index in enumerate(batch.wanted):
            logits[row] = torch.tensor(self._score(fed[index]))
        return logits


def uniform_model(vocabulary: int) -> FakeModel:
    """Every token is as likely as every other."""
    return FakeModel(lambda _: [0.0] * vocabulary, vocabulary=vocabulary)


def scripted_model(script: Callable[[Fed], int], vocabulary: int, *, certainty: float = 20.0) -> FakeModel:
    """`script` names the token that comes next; its logit is `certainty`, the others are 0."""

    def score(fed: Fed) -> list[float]:
        logits = [0.0] * vocabulary
        logits[script(fed)] = certainty
        return logits

    return FakeModel(score, vocabulary=vocabulary)


def hashed_model(vocabulary: int, *, seed: int = 0, spread: float = 2.0) -> FakeModel:
    """Random logits that are a function of everything seen: a token more, less or elsewhere changes all of them."""
    digests: dict[Fed, bytes] = {}

    def digest(fed: Fed) -> bytes:
        if fed not in digests:
            below = b"".join(digest(seen) for seen in fed.sees)
            digests[fed] = blake2b(b"%d %d %d " % (seed, fed.token, fed.position) + below, digest_size=16).digest()
        return digests[fed]

    def score(fed: Fed) -> list[float]:
        numbers = np.random.default_rng(int.from_bytes(digest(fed))).standard_normal(vocabulary)
        return [float(number) for number in numbers * spread]

    return FakeModel(score, vocabulary=vocabulary)
