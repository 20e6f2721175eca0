"""From a timeline to horizontal places: passes to pixels, with a band of room where forced text is fed.

Within a band no time passes: forks and joins bend there and forced text is written there. Between bands
the scale is the same everywhere, so a bar is as long as its limit (it runs on, paler, through the bands).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_BAND = 6.0
LEAST_SCALE = 0.02


@dataclass(frozen=True, slots=True)
class Band:
    """The moment after pass `at`, drawn from `left` to `right`."""

    at: int
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Axis:
    """`bands` are in the order of time; there is one at every moment that needs room."""

    left: float
    scale: float  # pixels per pass
    bands: tuple[Band, ...]
    times: tuple[int, ...]
    before: tuple[float, ...]  # the room that the bands before each one take together; one more at the end

    def enter(self, at: int) -> float:
        """Where that moment begins: what ends at `at` ends here."""
        return self.left + self.scale * at + self.before[bisect_left(self.times, at)]

    def leave(self, at: int) -> float:
        """Where that moment ends: what starts at `at` starts here."""
        return self.left + self.scale * at + self.before[bisect_right(self.times, at)]

    def crossed(self, start: int, end: int) -> tuple[Band, ...]:
        """The bands strictly between two times."""
        return self.bands[bisect_right(self.times, start) : bisect_left(self.times, end)]


def make_axis(left: float, right: float, passes: int, needs: Mapping[int, float]) -> Axis:
    """`needs` are the moments that want room, with how much; together they get half of the width at most."""
    times = tuple(sorted(needs))
    budget = (right - left) * (0.5 if passes else 1.0)
    cap = _cap([needs[at] for at in times], budget)
    widths = [min(needs[at], cap) for at in times]
    before = [0.0]
    for width in widths:
        before.append(before[-1] + width)
    scale = max(LEAST_SCALE, (right - left - before[-1]) / max(1, passes))
    bands = tuple(
        Band(at, left + scale * at + start, left + scale * at + start + width)
        for at, start, width in zip(times, before, widths, strict=False)
    )
    return Axis(left, scale, bands, times, tuple(before))


def _cap(needs: list[float], budget: float) -> float:
    """The widest that a band may be, so that all of them fit into the budget."""
    rest, left = budget, len(needs)
    for need in sorted(needs):
        if need * left > rest:
            return max(LEAST_BAND, rest / left)
        rest -= need
        left -= 1
    return max(needs, default=0.0)
