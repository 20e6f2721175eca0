"""Confidence intervals of an F1, and of a difference between two ways of decoding the same documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in points of F1, with its 95 % interval from paired bootstrap samples of the documents."""

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
    """By how many points the first F1 is higher."""
    left, right = np.array(one["per_document"]), np.array(other["per_document"])
    assert left.shape == right.shape
    draws = np.random.default_rng(seed).integers(0, len(left), (DRAWS, len(left)))
    found = _f1(left[draws].sum(1)) - _f1(right[draws].sum(1))
    low, high = np.percentile(found, (2.5, 97.5))
    return Difference(float(_f1(left.sum(0)[None])[0] - _f1(right.sum(0)[None])[0]), float(low), float(high))


def interval(one: dict[str, Any], *, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of an F1, from bootstrap samples of the documents."""
    found = np.array(one["per_document"])
    draws = np.random.default_rng(seed).integers(0, len(found), (DRAWS, len(found)))
    low, high = np.percentile(_f1(found[draws].sum(1)), (2.5, 97.5))
    return float(low), float(high)


def _f1(tallies: NDArray[np.int64]) -> NDArray[np.float64]:
    """(draws, 3) -> (draws,): 2 right / (given + expected), in per cent."""
    return np.asarray(200 * tallies[:, 0] / np.maximum(1, tallies[:, 1] + tallies[:, 2]), dtype=np.float64)
