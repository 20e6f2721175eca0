"""Gather the allowed tokens of a choice by the options that they leave, so that it is decided between whole options.

    "positive" | "negative" | "neutral"      pos posit positive → "positive"      neu neut → "neutral"
                                             n ne → "negative" or "neutral"       neg → "negative"

An option has many spellings in tokens. Taken one by one, the likeliest token may belong to an option that is less
likely than another one whose probability is spread over several spellings.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pastalang.runtime.constraints.choice_machine import ChoiceMachine, Flags, Range, UnionMachine
from pastalang.runtime.constraints.guide import Machine, MachineState, State, TokenMask
from pastalang.runtime.constraints.machine_guide import MachineGuideState
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Ints


@dataclass(frozen=True, slots=True, eq=False)
class OptionGroups:
    """`tokens` are the allowed ones, ascending, and `groups` the number of the group of each.

    `decides`: for each group, whether it leaves one option and nothing else. After others, several options or a value
    such as a text may follow, and which it is depends on the token.
    """

    tokens: Ints
    groups: Ints
    decides: Flags


@dataclass(frozen=True, slots=True)
class ChoicePosition:
    """The options of a choice that are still possible."""

    machine: ChoiceMachine
    at: Range


def choice_position(state: State) -> ChoicePosition | None:
    """The position of a choice; None if the value is not a choice."""
    if not isinstance(state, MachineGuideState) or not isinstance(state.machine, ChoiceMachine):
        return None
    return _position(state.machine, state.machine_state)


def options_left(token: int, state: State, position: ChoicePosition) -> Range | None:
    """The options that are possible after an allowed token; a single one is decided by it. None if that is unknown."""
    machine, at = position.machine, position.at
    assert isinstance(state, MachineGuideState)
    text = state.value_text(token)
    after = None if text is None else machine.options_after(at, text)
    if after is None and machine.accepts(at):
        return Range(at.low, at.low + 1, at.depth)  # the token ends the option that is complete here
    return after


def option_groups(state: State, allowed: TokenMask) -> OptionGroups | None:
    """None if the value is no choice here, or every token leaves options of its own."""
    if not isinstance(state, MachineGuideState):
        return None
    machine, at = state.machine, state.machine_state
    others: tuple[tuple[Machine, MachineState], ...] = ()
    if isinstance(machine, ChoiceMachine):
        position = _position(machine, at)
    elif isinstance(machine, UnionMachine):
        assert isinstance(at, tuple), "the state of several kinds of values"
        live = machine.live(at)
        closed = next(((arm, here) for arm, here in live if isinstance(arm, ChoiceMachine)), None)
        if closed is None:
            return None
        position, others = _position(*closed), tuple(one for one in live if one[0] is not closed[0])
    else:
        return None
    key = ("options", id(allowed), id(machine), at, state.rest)
    known = state.seam.tokens.cached_recent(
        key, lambda: (_grouped(state, tokens_of(allowed), position, others), allowed, machine)
    )  # fmt: skip
    return known[0]


class _Left(NamedTuple):
    """What is possible after a token: options from `low` to `high`, and other values. `token` if that is unknown."""

    low: int
    high: int
    others: bool
    token: int = -1


def _grouped(
    state: MachineGuideState, tokens: Ints, position: ChoicePosition, others: Sequence[tuple[Machine, MachineState]]
) -> OptionGroups | None:
    left = [_left_after(token, state, position, others) for token in tokens.tolist()]
    numbers = {one: number for number, one in enumerate(dict.fromkeys(left))}
    if len(numbers) == len(left):
        return None
    decides = np.array([one.high - one.low == 1 and not one.others for one in numbers], dtype=np.bool_)
    return OptionGroups(tokens, np.array([numbers[one] for one in left], dtype=np.int64), decides)


def _left_after(
    token: int, state: MachineGuideState, position: ChoicePosition, others: Sequence[tuple[Machine, MachineState]]
) -> _Left:
    options, text = options_left(token, state, position) or _ended(token, state, position), state.value_text(token)
    has_others = any(_may_begin(arm, here, text, state.seam) for arm, here in others)
    if options is None:
        return _Left(0, 0, has_others, -1 if has_others else token)
    return _Left(options.low, options.high, has_others)


def _ended(token: int, state: MachineGuideState, position: ChoicePosition) -> Range | None:
    """The option that ended before this token, in text that might have been a part of a longer one."""
    after = state.fork()
    after.advance(token)
    text = after.text.encode()
    at = bisect_left(position.machine.options, text)
    is_option = after.is_finished and position.machine.options[at : at + 1] == [text]
    return Range(at, at + 1, len(text)) if is_option else None


def _may_begin(machine: Machine, here: MachineState, text: bytes | None, seam: Seam) -> bool:
    """Whether a value of the machine goes on with the text, or ends in it. None: the end of the model's turn."""
    if text is None:
        return machine.accepts(here)
    for at, byte in enumerate(text):
        following = machine.step(here, byte)
        if following is None:
            return machine.accepts(here) and seam.agrees(text[at:])
        here = following
    return True


def _position(machine: ChoiceMachine, at: MachineState) -> ChoicePosition:
    assert isinstance(at, Range)
    return ChoicePosition(machine, at)
