"""Medians with intervals, and how a quantity grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from random import Random
from statistics import linear_regression, median
from typing import Final

_SAMPLES: Final = 2000
_ENOUGH: Final = 6  # values for an interval


@dataclass(frozen=True, slots=True)
class Median:
    """With the interval that holds it in 95 of 100 samples drawn anew from the same values (bootstrap)."""

    value: float
    low: float
    high: float
    count: int

    def shown(self, digits: int = 2) -> str:
        """The interval of a few values is only their spread, so it is left out."""
        if self.count < _ENOUGH:
            return f"{self.value:.{digits}f}"
        return f"{self.value:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def median_of(values: Sequence[float]) -> Median:
    chance = Random(0)
    found = sorted(median(chance.choices(values, k=len(values))) for _ in range(_SAMPLES))
    low, high = found[int(0.025 * _SAMPLES)], found[int(0.975 * _SAMPLES)]
    return Median(median(values), low, high, len(values))


def exponent_of(points: Sequence[tuple[float, float]]) -> float:
    """The power of x with which y grows, fitted in logarithms: 1 for what grows in proportion."""
    return linear_regression([log(x) for x, _ in points], [log(y) for _, y in points]).slope
