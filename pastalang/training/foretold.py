"""How often what probes foretell is drawn: at each distance, among the likeliest tokens, and in a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from pastalang.runtime.models.probe_tokens import BUCKETS, EDGES, MIDDLES, Accuracy
from pastalang.training.recording import IGNORED

_TOP: Final = 8  # ranks of which the accuracy is measured: as many as decoding considers
_DOUBT: Final = 8  # what is believed of a bucket counts like so many predictions


class Tally:
    """Counts how often predictions are right, at each distance."""

    def __init__(self, distances: int) -> None:
        self._top = torch.zeros(distances, _TOP)
        self._judged = torch.zeros(distances)
        self._runs, self._hosts = torch.zeros(distances), 0
        self._right, self._seen = torch.zeros(distances, BUCKETS), torch.zeros(distances, BUCKETS)

    def add(self, drawn: Tensor, logits: Tensor) -> None:
        """`logits` (lines, hosts, distances, vocabulary) have to predict `drawn` (lines, hosts, distances). Where the
        type forced the token (`IGNORED`), nothing is judged, and a run of right ones goes on."""
        known = drawn != IGNORED
        found = torch.softmax(logits.float(), dim=-1).topk(_TOP, dim=-1)
        is_drawn = (found.indices == drawn[..., None]).cpu()
        known, chances = known.cpu(), found.values.cpu()
        right = is_drawn[..., 0]
        self._judged += known.sum(dim=(0, 1))
        self._top += (is_drawn.cumsum(dim=-1) * known[..., None]).sum(dim=(0, 1))
        in_a_row = (right | ~known).long().cumprod(dim=-1).bool()
        self._runs += (in_a_row & known).sum(dim=(0, 1))
        self._hosts += known.shape[0] * known.shape[1]
        buckets = torch.bucketize(chances, torch.tensor(EDGES), right=True)
        for distance in range(known.shape[-1]):
            where = known[..., distance]
            chosen = buckets[..., distance, :][where].flatten()
            self._seen[distance] += torch.bincount(chosen, minlength=BUCKETS)
            hits = is_drawn[..., distance, :][where].flatten().float()
            self._right[distance] += torch.bincount(chosen, weights=hits, minlength=BUCKETS)

    @property
    def accuracy(self) -> Accuracy:
        by_chance = (self._right + _DOUBT * torch.tensor(MIDDLES)) / (self._seen + _DOUBT)
        top = self._top / self._judged.clamp(min=1)[:, None]
        runs = self._runs / max(1, self._hosts)
        return Accuracy(_rounded(top), _rounded(runs[None])[0], _rounded(by_chance))


def _rounded(numbers: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(float(one), 4) for one in row) for row in numbers)


def table(accuracy: Accuracy) -> Iterator[str]:
    yield "tokens ahead  right  among 5  right in a row"
    for distance, (top, run) in enumerate(zip(accuracy.top, accuracy.runs, strict=True), start=1):
        yield f"{distance:>12}  {top[0]:>5.2f}  {top[4]:>7.2f}  {run:>14.2f}"
