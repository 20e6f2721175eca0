"""How large a step may be: limits that a caller sets, and a budget once the device has run out of memory."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.runtime.call import check_size

_STEPS = 64  # successful steps before twice as many tokens are tried again


@dataclass(frozen=True, slots=True)
class Limits:
    """What a step and an engine may take on.

    chunk     the most tokens of one branch in one step
    requests  how many requests may be active at once
    """

    chunk: int | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("chunk", self.chunk), ("requests", self.requests)):
            if value is not None:
                check_size(name, value, minimum=1)


class StepBudget:
    """`most` is None until the device has run out of memory: then a step may hold as many tokens as there are."""

    def __init__(self, capacity: int) -> None:
        self.most: int | None = None
        self._capacity = capacity
        self._succeeded = 0
        self._without_drafts = 0  # steps to come

    def shrink(self, tokens: int) -> bool:
        """A step of so many tokens was too large. False if there is no smaller one."""
        self.most = max(tokens // 2, 1)
        self._succeeded = 0
        return tokens > 1

    def drop_drafts(self) -> None:
        """A step with drafts was too large."""
        self._without_drafts = _STEPS

    @property
    def may_draft(self) -> bool:
        return self.most is None and not self._without_drafts

    def step_succeeded(self) -> None:
        self._without_drafts = max(0, self._without_drafts - 1)
        if self.most is None:
            return
        self._succeeded += 1
        if self._succeeded == _STEPS:
            self._succeeded = 0
            self.most = None if 2 * self.most >= self._capacity else 2 * self.most
