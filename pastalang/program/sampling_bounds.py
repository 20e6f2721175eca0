"""The numbers that each sampling option takes, such as `temperature` and `top_k`, in programs and in calls."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class SamplingBounds:
    """From `low` (excluded if `is_above`) to `high`, without the numbers between 0 and `least`, which overflow."""

    high: int
    low: int = 0
    is_above: bool = False
    is_whole: bool = False
    least: Decimal | None = None

    def accepts(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else int | float | Decimal):
            return False
        if self.least is not None and 0 < value < self.least:
            return False
        return self.low <= value <= self.high and not (self.is_above and value == self.low)

    @property
    def expected(self) -> str:
        if self.is_whole:
            return f"a whole number from {self.low} to {self.high}"
        if self.least is not None:
            from_least = f"a number from {self.least:f} to {self.high}"
            return from_least if self.is_above else f"{self.low} or {from_least}"
        return (
            f"a number above {self.low} and up to {self.high}"
            if self.is_above
            else f"a number from {self.low} to {self.high}"
        )


SAMPLING_BOUNDS = {
    "temperature": SamplingBounds(100, least=Decimal("0.000001")),
    "top_k": SamplingBounds(1_000_000, low=1, is_whole=True),
    "top_p": SamplingBounds(1, is_above=True),
    "min_p": SamplingBounds(1),
    "repetition_penalty": SamplingBounds(100, is_above=True, least=Decimal("0.01")),
}
