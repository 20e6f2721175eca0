"""Compares what training computes with what decoding computes: a drafter that feeds probes alone, and their logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pastalang.runtime.attention.plain_views import FedToken, PlainViews
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.draft_tree import FROM_BRANCH, PROBE, DraftTree, Guess
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.step import StepBatch

VOCABULARY = 320


class Watched:
    """Keeps the logits of the probes of a run, by what they see of the text, their token, and how many probes they
    see."""

    def __init__(self, inner: TransformersModel) -> None:
        self.inner, self.views = inner, PlainViews()
        self.found: dict[tuple[object, int, int], torch.Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        fed, logits = self.views.feed(batch), self.inner.forward(batch)
        for row, index in enumerate(batch.wanted):
            probe = fed[index]
            if probe.token >= VOCABULARY:
                before = sum(seen.token >= VOCABULARY for seen in probe.sees if seen is not probe)
                self.found[context_of(probe), probe.token - VOCABULARY, before] = logits[row]
        return logits


def context_of(token: FedToken) -> object:
    return frozenset((seen.token, seen.position) for seen in token.sees if seen.token < VOCABULARY)


class OnlyProbes:
    """Probes after everything that is drawn from, and no guesses. `ids`: the tokens of each distance."""

    def __init__(self, ids: Sequence[Sequence[int]]) -> None:
        self.ids = ids

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        tree: list[Guess] = []
        for chain in zip(*self.ids, strict=True):
            for distance, token in enumerate(chain):
                tree.append(Guess(token, len(tree) - 1 if distance else FROM_BRANCH, 0.0, PROBE))
        return [tree] * len(branches)

    def learn(self, tree: DraftTree) -> None: ...
    def remember(self, request: RequestState) -> None: ...
