"""What a preference round is asked for. The command line reads this module for its options, so it imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """What a margin costs: as BoNBoN's and PASTA's papers write it, or as the published code of BoNBoN computes it."""

    SQUARED = "squared"  # (margin - target)²
    LOGISTIC = "logistic"  # -log sigmoid(β margin), with β = 1 / (2 target)


@dataclass(frozen=True, slots=True)
class Preference:
    """`samples` answers to a prompt. `quality_weight` is λ; infinity: quality alone, and speed where it is equal.

    `target`: the margin that is aimed at; None: (n - 1) (1 + 1/2 + ... + 1/(n-1)), that of the best and worst of n.
    """

    samples: int = 10
    quality_weight: float = 2.0
    alpha: float = 0.005
    target: float | None = None
    form: Form = Form.SQUARED
    temperature: float = 1.0

    @property
    def margin(self) -> float:
        n = self.samples
        return self.target if self.target is not None else (n - 1) * sum(1 / k for k in range(1, n))

    @property
    def beta(self) -> float:
        """The slope of the logistic form: 0.0275 for 8 samples."""
        return 1 / (2 * self.margin)

    def score(self, speed: float, quality: float) -> tuple[float, float]:
        """The key to rank answers by: the worst first."""
        if math.isinf(self.quality_weight):
            return quality, speed
        return speed + self.quality_weight * quality, quality
