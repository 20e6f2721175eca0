"""Compares what training computes with what decoding computes: a drafter that feeds probes alone, and their logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pastalang.runtime.attention.plain_views import PlainViews
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.draft_tree import FROM_BRANCH, PROBE, DraftTree, Guess
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.step import StepBatch
from pastalang.training.probe_lines import Host
from pastalang.training.recording import TrainingRow

VOCABULARY = 320


class Watched:
    """Keeps the logits of the probes of a run, by what they see of the text, their token, and how many probes they
    see."""

    def __init__(self, inner: TransformersModel) -> None:
        self.inner, self.views, self.vocabulary = inner, PlainViews(), inner.vocabulary
        self.found: dict[tuple[object, int, int], torch.Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        fed, logits = self.views.feed(batch), self.inner.forward(batch)
        for row, index in enumerate(batch.wanted):
            probe = fed[index]
            if probe.token >= self.vocabulary:
                text = [seen for seen in probe.sees if seen.token < self.vocabulary]
                context = frozenset((seen.token, seen.position) for seen in text)
                before = sum(seen.token >= self.vocabulary for seen in probe.sees if seen is not probe)
                self.found[context, probe.token - self.vocabulary, before] = logits[row]
        return logits


def context_of(row: TrainingRow, host: Host) -> object:
    """The same of a host in a row."""
    seen = row.visible[host.places[0]]
    return frozenset(zip(row.tokens[seen].tolist(), row.positions[seen].tolist(), strict=True))


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
