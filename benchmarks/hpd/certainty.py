"""Confidence intervals of an F1, and of a difference between two ways of decoding the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in points of F1, with its 95 % interval from paired bootstrap samples of the documents.

    It is the mean of `seeds`, the differences with each of them. How far other seeds would lie from them, a few cannot
    tell: the interval is about these.
    """

    points: float
    low: float
    high: float
    seeds: tuple[float, ...]

    @property
    def verdict(self) -> str:
        if self.low == self.high == 0:
            return "the same"
        if self.low > 0 and min(self.seeds) > 0:
            return "better"
        return "worse" if self.high < 0 and max(self.seeds) < 0 else "no difference shown"

    def __str__(self) -> str:
        points, low, high = (round(one, 1) + 0.0 for one in (self.points, self.low, self.high))  # no "-0.0"
        each = ", ".join(f"{round(one, 1) + 0.0:+.1f}" for one in self.seeds)
        return f"{points:+.1f} points ({low:+.1f} … {high:+.1f}{f'; seeds {each}' if len(self.seeds) > 1 else ''})"


def difference(one: dict[str, Any], other: dict[str, Any], *, seed: int = 0) -> Difference:
    """By how many points the first F1 is higher. One that has no seed, a base, is compared with those of every seed."""
    return mean_difference([(one, other)], seed=seed)


def mean_difference(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], *, seed: int = 0) -> Difference:
    """The mean of the differences of several data sets, each with the same weight."""
    random = np.random.default_rng(seed)
    draws, seeds = np.zeros(DRAWS), np.zeros(1)
    for one, other in pairs:
        left, right = _tallies(one), _tallies(other)
        assert left.shape[1:] == right.shape[1:] and (len(left) == len(right) or 1 in (len(left), len(right)))
        drawn = random.integers(0, left.shape[1], (DRAWS, left.shape[1]))
        draws += (_f1(left[:, drawn].sum(2)) - _f1(right[:, drawn].sum(2))).mean(0) / len(pairs)
        seeds = seeds + (_f1(left.sum(1)) - _f1(right.sum(1))) / len(pairs)
    low, high = np.percentile(draws, (2.5, 97.5))
    return Difference(float(seeds.mean()), float(low), float(high), tuple(map(float, seeds)))


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
