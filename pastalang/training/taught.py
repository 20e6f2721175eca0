"""What one set of weights is taught: one way of decoding, or all of them."""

from __future__ import annotations

from enum import StrEnum

from pastalang.plan.plan import Mode


class Taught(StrEnum):
    STRICT = "strict"
    LOCKSTEP = "lockstep"
    SEQUENTIAL = "sequential"
    MIXTURE = "mixture"

    @property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(Mode) if self is Taught.MIXTURE else (Mode(self.value),)
