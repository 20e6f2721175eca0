"""One draw, in the order of the manual: logits, allowed tokens and a number in [0, 1) come in, a token goes out.

allowed tokens ── repetition penalty ── temperature ── top_k ── top_p ── min_p ──> one token
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from pastalang.program.types import Sampling

Floats = NDArray[np.float64]


def choose(
    logits: Floats, allowed: Collection[int] | None, sampling: Sampling, before: Collection[int], uniform: float
) -> tuple[int, float]:
    """The token, and how likely the model holds it among the allowed ones. `allowed` None: every token."""
    tokens = list(range(len(logits))) if allowed is None else sorted(allowed)
    scores = logits[tokens]
    column = _column(_penalised(scores, tokens, before, sampling), sampling, uniform)
    return tokens[column], float(scores[column] - scores.max() - math.log(np.exp(scores - scores.max()).sum()))


def _penalised(scores: Floats, tokens: list[int], before: Collection[int], sampling: Sampling) -> Floats:
    penalty = sampling.repetition_penalty or 1.0
    lowered = np.where(scores > 0, scores / penalty, scores * penalty)
    return np.where([token in before for token in tokens], lowered, scores)


def _column(scores: Floats, sampling: Sampling, uniform: float) -> int:
    if not sampling.temperature:
        return int(scores.argmax())
    chances = np.exp((scores - scores.max()) / sampling.temperature)
    chances /= chances.sum()
    order = list(range(len(chances)))
    if sampling.top_k is not None or sampling.top_p is not None:
        order.sort(key=lambda column: -chances[column])
        order = _nucleus(order[: sampling.top_k], chances, sampling.top_p)
    least = (sampling.min_p or 0.0) * chances[order].max()
    order = [column for column in order if chances[column] >= least]
    target = uniform * chances[order].sum()
    reached = np.cumsum(chances[order])
    return order[min(int((reached <= target).sum()), len(order) - 1)]


def _nucleus(order: list[int], chances: Floats, share: float | None) -> list[int]:
    """The likeliest ones, until they have this share of what is left."""
    if share is None:
        return order
    weights = chances[order] / chances[order].sum()
    before = np.cumsum(weights) - weights
    return [column for column, reached in zip(order, before, strict=True) if reached < share]
