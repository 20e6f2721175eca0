"""The step budget: how many tokens a step may hold after the device has run out of memory."""

from __future__ import annotations

_STEPS = 64  # successful steps before twice as many tokens are tried again


class StepBudget:
    """`most` is None until the device has run out of memory: then a step may hold as many tokens as there are."""

    def __init__(self, capacity: int) -> None:
        self.most: int | None = None
        self._capacity = capacity
        self._succeeded = 0

    def shrink(self, tokens: int) -> bool:
        """A step of so many tokens was too large. False if there is no smaller one."""
        self.most = max(tokens // 2, 1)
        self._succeeded = 0
        return tokens > 1

    def step_succeeded(self) -> None:
        if self.most is None:
            return
        self._succeeded += 1
        if self._succeeded == _STEPS:
            self._succeeded = 0
            self.most = None if 2 * self.most >= self._capacity else 2 * self.most
