"""What a constraint did to the probabilities: one row of logits and the state of a hole come in, numbers go out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pastalang.runtime.decode.engines.choice import ChoiceMachine, Range
from pastalang.runtime.decode.guide import State, TokenMask
from pastalang.runtime.decode.lead import Led
from pastalang.runtime.decode.mask import tokens_of


def pushed_aside(logits: torch.Tensor, state: State) -> float:
    """The share of the model's probability that the constraint rules out here (logits: (vocabulary,))."""
    return 1.0 - float(_probabilities(logits)[_indexes(state.allowed(), logits)].sum())


def probability_of(logits: torch.Tensor, state: State, token: int) -> float:
    """Of the token, among those that are allowed."""
    allowed = logits.double()[_indexes(state.allowed(), logits)]
    return float((logits.double()[token] - allowed.logsumexp(0)).exp())


@dataclass(frozen=True, slots=True)
class Options:
    """`share[text]` is exact for options that the next token settles; `open` is left to those that share a token."""

    share: dict[str, float]
    open: float


def distribution(logits: torch.Tensor, state: State, machine: ChoiceMachine, at: Range) -> Options:
    """What each option would get from this one row, if the token was drawn from the allowed ones."""
    allowed = tokens_of(state.allowed())
    chances = logits.double()[torch.from_numpy(allowed)].softmax(0).tolist()
    share: dict[str, float] = {}
    unsettled = 0.0
    for token, chance in zip(allowed.tolist(), chances, strict=True):
        text = state.behind_lead(token) if isinstance(state, Led) else None
        after = machine.options_after(at, token) if text is None else machine.options_behind(at, text)
        if after is None and machine.accepts(at):
            after = Range(at.low, at.low + 1, at.depth)  # the token ends the option that stands there
        if after is None or after.high - after.low > 1:
            unsettled += chance
            continue
        option = machine.options[after.low].decode()
        share[option] = share.get(option, 0.0) + chance
    return Options(share, unsettled)


def _probabilities(logits: torch.Tensor) -> torch.Tensor:
    return logits.double().softmax(0)


def _indexes(mask: TokenMask, logits: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(tokens_of(mask)).to(logits.device)
