"""Prompt tokens as a source of guesses: what their logits foretold, and how far it can be trusted.

step 1     … a │ t1 t2 t3         draws b from the logits of a; t1, t2, t3 foretell c, d, e
step 2     … a b │ c d e │ t1 …   b draws c? then c draws d? …
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from pastalang.runtime.drafts.budget import NO_PROBES, Probing
from pastalang.runtime.models.prompt_tokens import BUCKETS, PromptTokens
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.draft_tree import DraftTree

LIKELIEST = 8  # tokens that are considered at each distance
_TRUST, _MEMORY = 32, 512  # what training measured counts like so many steps; what was seen, like so many at most
_ROOM = 64  # positions that have to be left before the model's last one


class Foretold(NamedTuple):
    """A token at a distance, 0 for the next draw that is not known yet, and its probability by the prompt tokens."""

    token: int
    distance: int
    probability: float


class PromptDrafts:
    """What the probes of each branch foretold, until it is known. `vocabulary`: the id of the first prompt token."""

    def __init__(self, trained: PromptTokens, vocabulary: int, last_position: int) -> None:
        self._accuracy = trained.accuracy
        self._last_position = last_position
        self._tokens = tuple(
            tuple(vocabulary + distance * trained.ensemble + one for one in range(trained.ensemble))
            for distance in range(trained.distances)
        )
        self._foretold: WeakKeyDictionary[BranchState, _Foretold] = WeakKeyDictionary()
        self._right = defaultdict[int, float](float)
        self._judged = defaultdict[int, float](float)

    def probing(self, branches: Sequence[BranchState]) -> Probing:
        """What a probe is worth now."""
        if any(branch.position + _ROOM > self._last_position for branch in branches):
            return NO_PROBES
        runs = self._accuracy.runs
        gains = [
            (self._right[distance] + _TRUST * run) / (self._judged[distance] + _TRUST)
            for distance, run in enumerate(runs)
        ]
        return Probing(gains, self._tokens)

    def look(self, logits: torch.Tensor, probed: Sequence[tuple[DraftTree, Sequence[Sequence[int]]]]) -> None:
        """Read what the probes of a step foretell. `logits`: (rows, vocabulary)."""
        if not probed:
            return
        mean = torch.stack([logits[rows].float().mean(dim=0) for _, distances in probed for rows in distances])
        found = torch.softmax(mean, dim=-1).topk(min(LIKELIEST, mean.shape[-1]), dim=-1)
        likeliest = list(zip(found.indices.tolist(), found.values.tolist(), strict=True))
        for tree, distances in probed:
            here, likeliest = likeliest[: len(distances)], likeliest[len(distances) :]
            self._judge(tree.branch)
            # The last confirmed token draws the next one, and the first probe foretells the one after that.
            first = tree.after + len(tree.confirmed) + 1
            self._foretold[tree.branch] = _Foretold(first, [list(zip(*one, strict=True)) for one in here])

    def foretold(self, branch: BranchState) -> list[list[Foretold]]:
        """Of each token that the branch draws next, the next one first: the likeliest ones."""
        known = self._foretold.get(branch)
        if known is None or len(branch.tokens) < known.first:
            return []
        gone = len(branch.tokens) - known.first
        return [
            [Foretold(token, distance, probability) for token, probability in candidates]
            for distance, candidates in enumerate(known.likeliest)
        ][gone:]

    def end(self, branch: BranchState) -> None:
        """A branch draws no more: what was foretold beyond its end was wrong."""
        self._judge(branch)
        self._foretold.pop(branch, None)

    def belief(self, distance: int, bucket: int) -> float:
        """How often a token of such a probability was right at the end of training."""
        return self._accuracy.by_chance[distance][bucket]

    def _judge(self, branch: BranchState) -> None:
        """How far the likeliest tokens of the last look came true: each of a run that is right saves a pass."""
        known = self._foretold.get(branch)
        if known is None:
            return
        drawn, is_right = {one.index for one in branch.drawn[-_ROOM:]}, True
        for distance, candidates in enumerate(known.likeliest):
            at = known.first + distance
            is_known = at < len(branch.tokens)
            if is_right and not is_known and branch.hole is not None:
                return
            if is_known and at not in drawn:
                continue  # the type forced it
            is_right = is_right and is_known and branch.tokens[at] == candidates[0][0]
            if self._judged[distance] >= _MEMORY:
                self._right[distance] /= 2
                self._judged[distance] /= 2
            self._right[distance] += is_right
            self._judged[distance] += 1


class _Foretold(NamedTuple):
    first: int  # the number of the branch's token that the first distance foretells
    likeliest: Sequence[Sequence[tuple[int, float]]]


def bucket_of(probability: float) -> int:
    return min(int(probability * BUCKETS), BUCKETS - 1)
