"""How a run stood when its first answer was complete: what the plan asked for, apart from what was done again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FirstAnswerStats:
    branches: int
    forward_passes: int
    last_draw: int
    drawn: int
