"""The machine of a union: it runs the machines of all arms that the bytes so far allow, in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pastalang.runtime.constraints.guide import Machine, MachineState, TokenMask
from pastalang.runtime.constraints.kinds.choice import common_prefix
from pastalang.runtime.constraints.masks import join_masks
from pastalang.runtime.constraints.tokens import Tokens

LiveArms: TypeAlias = tuple[tuple[int, MachineState], ...]  # the arms that are still possible, with their states


class UnionMachine:
    """See `guide.Machine`."""

    def __init__(self, arms: Sequence[Machine], tokens: Tokens) -> None:
        self._arms = tuple(arms)
        self._tokens = tokens
        self.start: MachineState = tuple((number, arm.start) for number, arm in enumerate(arms))

    # One arm is left after a byte or two, so that case is a way of its own wherever it saves time.

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        live = _live(state)
        if len(live) == 1:
            number, here = live[0]
            following = self._arms[number].step(here, byte)
            return None if following is None else ((number, following),)
        found = tuple(
            (number, following)
            for number, here in live
            if (following := self._arms[number].step(here, byte)) is not None
        )
        return found or None

    def accepts(self, state: MachineState) -> bool:
        live = _live(state)
        if len(live) == 1:
            return self._arms[live[0][0]].accepts(live[0][1])
        return any(self._arms[number].accepts(here) for number, here in live)

    def can_continue(self, state: MachineState) -> bool:
        return any(self._arms[number].can_continue(here) for number, here in _live(state))

    def stop_bytes(self, state: MachineState) -> int:
        live = _live(state)
        if len(live) == 1:
            return self._arms[live[0][0]].stop_bytes(live[0][1])
        return max(self._arms[number].stop_bytes(here) for number, here in live)

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        endings = [self._arms[number].ending(here) for number, here in _live(state)]
        return min((ending for ending in endings if ending is not None), key=len, default=None)

    def forced(self, state: MachineState) -> bytes:
        live = _live(state)
        if len(live) == 1:
            number, here = live[0]
            return self._arms[number].forced(here)
        common = self._arms[live[0][0]].forced(live[0][1])
        for number, here in live[1:]:
            common = common_prefix(common, self._arms[number].forced(here))
        return common

    def warm(self) -> None:
        for arm in self._arms:
            arm.warm()

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        live = _live(state)
        if len(live) == 1:
            return self._arms[live[0][0]].mask(live[0][1], remaining)
        masks = [self._arms[number].mask(here, remaining) for number, here in live]
        key = ("union", *map(id, masks))
        joined, _ = self._tokens.cached_recent(key, lambda: (join_masks(self._tokens.size, masks), masks))
        return joined


def _live(state: MachineState) -> LiveArms:
    assert isinstance(state, tuple)
    return state
