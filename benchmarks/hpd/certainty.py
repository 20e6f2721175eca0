"""Confidence intervals of an F1, and of a difference between two ways of decoding the same documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in points of F1, with its 95 % interval from paired bootstrap samples of documents and seeds."""

    points: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        if self.low == self.high == 0:
            return "the same"
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "no difference shown"

    def __str__(self) -> str:
        points, low, high = (round(one, 1) + 0.0 for one in (self.points, self.low, self.high))  # no "-0.0"
        return f"{points:+.1f} points ({low:+.1f} … {high:+.1f})"


def difference(one: dict[str, Any], other: dict[str, Any], *, seed: int = 0) -> Difference:
    """By how many points the first F1 is higher. One that was measured with one seed is compared with every other."""
    left, right = _tallies(one), _tallies(other)
    assert left.shape[1:] == right.shape[1:] and (len(left) == len(right) or 1 in (len(left), len(right)))
    seeds, documents = max(len(left), len(right)), left.shape[1]
    random = np.random.default_rng(seed)
    drawn = random.integers(0, documents, (DRAWS, documents))
    gaps = _f1(left[:, drawn].sum(2)) - _f1(right[:, drawn].sum(2))  # (seeds, draws)
    chosen = random.integers(0, seeds, (seeds, DRAWS))
    low, high = np.percentile(np.take_along_axis(gaps, chosen, 0).mean(0), (2.5, 97.5))
    points = _f1(left.sum(1)).mean() - _f1(right.sum(1)).mean()
    return Difference(float(points), float(low), float(high))


def interval(one: dict[str, Any], *, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of an F1, from bootstrap samples of the documents."""
    found = _tallies(one)
    draws = np.random.default_rng(seed).integers(0, found.shape[1], (DRAWS, found.shape[1]))
    low, high = np.percentile(_f1(found[:, draws].sum(2)).mean(0), (2.5, 97.5))
    return float(low), float(high)


def _tallies(one: dict[str, Any]) -> NDArray[np.int64]:
    """(seeds, documents, 3): right, given and expected values."""
    found = np.array(one["per_document"])
    return found if found.ndim == 3 else found[None]


def _f1(tallies: NDArray[np.int64]) -> NDArray[np.float64]:
    """(..., 3) -> (...): 2 right / (given + expected), in per cent."""
    return np.asarray(200 * tallies[..., 0] / np.maximum(1, tallies[..., 1] + tallies[..., 2]), dtype=np.float64)
