"""Probes as a source of guesses: what the logits of prompt tokens or of the mask token predicted, and how far it can be
trusted.

step 1     … a │ t1 t2 t3         draws b from the logits of a; t1, t2, t3 predict c, d, e
step 2     … a b │ c d e │ t1 …   b draws c? then c draws d? …

Where tokens are sampled, predictions are sampled too, with the random key of the draw that they are a guess of. So the
two nearly always agree if the distributions do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import torch

from pastalang.runtime.drafts.budget import NO_PROBES, Probing
from pastalang.runtime.models.probe_tokens import BUCKETS, EDGES, ProbeTokens
from pastalang.runtime.sampling.sampler import waiting_times
from pastalang.runtime.scheduler.draft_tree import DraftTree
from pastalang.runtime.scheduler.sample_request import draw_key, sampling_of
from pastalang.runtime.scheduler.state import BranchState

PREDICTED: Final = 400  # the first kind of guesses that were predicted
LIKELIEST = 8  # tokens that are considered at each distance
_TRUST, _MEMORY = 32, 512  # what training measured counts like so many steps; what was seen, like so many at most
_WORTH = 0.05  # the probability from which on a runner-up is worth guessing
_ROOM = 64  # positions that have to be left before the model's last one


class Predicted(NamedTuple):
    """A token at a distance, 0 for the next draw that is not known yet, and its probability by the probes."""

    token: int
    distance: int
    probability: float


class ProbeDrafts:
    """What the probes of each branch predicted, until it is known. `vocabulary`: the id of the first probe token."""

    def __init__(self, trained: ProbeTokens, vocabulary: int, last_position: int) -> None:
        self._accuracy = trained.accuracy
        self._last_position = last_position
        self._tokens = trained.ids(vocabulary)
        self._predicted: WeakKeyDictionary[BranchState, _Predicted] = WeakKeyDictionary()
        self._pending: WeakKeyDictionary[BranchState, list[_Predicted]] = WeakKeyDictionary()  # not judged yet
        self._right = defaultdict[int, float](float)
        self._judged = defaultdict[int, float](float)

    def probing(self, branches: Sequence[BranchState]) -> Probing:
        """What a probe is worth now."""
        if any(branch.sequence.position + _ROOM > self._last_position for branch in branches):
            return NO_PROBES
        runs = self._accuracy.runs
        gains = [
            (self._right[distance] + _TRUST * run) / (self._judged[distance] + _TRUST)
            for distance, run in enumerate(runs)
        ]
        return Probing(gains, self._tokens)

    def look(self, logits: torch.Tensor, probed: Sequence[tuple[DraftTree, Sequence[Sequence[int]]]]) -> None:
        """Read what the probes of a step predict. `logits`: (rows, vocabulary)."""
        if not probed:
            return
        mean = torch.stack([logits[rows].float().mean(dim=0) for _, distances in probed for rows in distances])
        chances = torch.softmax(mean, dim=-1)
        first = 0
        for tree, distances in probed:
            own = slice(first, first + len(distances))
            chances[own] = _as_drawn(mean[own], chances[own], tree)
            first = own.stop
        found = chances.topk(min(LIKELIEST, mean.shape[-1]), dim=-1)
        likeliest = list(zip(found.indices.tolist(), found.values.tolist(), strict=True))
        for tree, distances in probed:
            here, likeliest = likeliest[: len(distances)], likeliest[len(distances) :]
            found_here = _Predicted(_first(tree), [list(zip(*one, strict=True)) for one in here])
            self._predicted[tree.branch] = found_here
            self._settle(tree.branch)
            self._pending[tree.branch].append(found_here)

    def predicted(self, branch: BranchState) -> list[list[Predicted]]:
        """Of each token that the branch draws next, the next one first: the likeliest ones."""
        known = self._predicted.get(branch)
        length = len(branch.sequence.tokens)
        if known is None or length < known.first:
            return []
        gone = length - known.first
        return [
            [Predicted(token, distance, probability) for token, probability in candidates]
            for distance, candidates in enumerate(known.likeliest)
        ][gone:]

    def end(self, branch: BranchState) -> None:
        """A branch draws no more: what was predicted beyond its end was wrong."""
        self._predicted.pop(branch, None)
        for known in self._pending.pop(branch, ()):
            self._judge(branch, known)

    def belief(self, distance: int, bucket: int) -> float:
        """How often a token of such a probability was right at the end of training."""
        return self._accuracy.by_chance[distance][bucket]

    def _settle(self, branch: BranchState) -> None:
        """Judge what was predicted of tokens that are all known by now."""
        known = len(branch.sequence.tokens)
        pending = self._pending.setdefault(branch, [])
        for one in pending:
            if one.first + len(one.likeliest) <= known:
                self._judge(branch, one)
        pending[:] = [one for one in pending if one.first + len(one.likeliest) > known]

    def _judge(self, branch: BranchState, known: _Predicted) -> None:
        """How far the tokens that are worth guessing came true: each of a run that is right saves a pass."""
        tokens = branch.sequence.tokens
        drawn, is_right = {one.index for one in branch.record.drawn[-_ROOM:]}, True
        for distance, candidates in enumerate(known.likeliest):
            at = known.first + distance
            is_known = at < len(tokens)
            if is_known and at not in drawn:
                continue  # the type forced it
            is_right = is_right and is_known and tokens[at] in _worth_guessing(candidates)
            if self._judged[distance] >= _MEMORY:
                self._right[distance] /= 2
                self._judged[distance] /= 2
            self._right[distance] += is_right
            self._judged[distance] += 1


def _worth_guessing(candidates: Sequence[tuple[int, float]]) -> set[int]:
    return {token for rank, (token, probability) in enumerate(candidates) if not rank or probability >= _WORTH}


def _first(tree: DraftTree) -> int:
    """The number of the token that the first probe predicts: the last confirmed one draws the token before it."""
    return tree.after + len(tree.confirmed) + 1


def _as_drawn(logits: torch.Tensor, chances: torch.Tensor, tree: DraftTree) -> torch.Tensor:
    """The chances (distances, vocabulary) of what is predicted to a branch. If it samples, the largest of a row is that
    of the token that its key would draw from the row, and the others say how near they come to it."""
    branch = tree.branch
    sampling = sampling_of(branch)
    if not sampling.temperature:
        return chances
    known = len(branch.sequence.tokens) - _first(tree)  # tokens that the type has forced after the last draw
    keys = [draw_key(branch, ahead=max(0, distance - known)) for distance in range(len(logits))]
    times = waiting_times(keys, torch.arange(logits.shape[1], device=logits.device), dtype=logits.dtype)
    drawn = torch.softmax(logits / sampling.temperature, dim=-1) / times
    return drawn / drawn.sum(dim=-1, keepdim=True)


class _Predicted(NamedTuple):
    first: int  # the number of the branch's token that the first distance predicts
    likeliest: Sequence[Sequence[tuple[int, float]]]


def kind_of(distance: int, probability: float) -> int:
    """Of a guess that was predicted."""
    return PREDICTED + distance * BUCKETS + bisect_right(EDGES, probability)


def distance_and_bucket(kind: int) -> tuple[int, int]:
    """Of a guess that was predicted."""
    return divmod(kind - PREDICTED, BUCKETS)
