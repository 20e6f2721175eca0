"""Confidence: the probability that a constraint masks, and the probability of each option of a choice.

The weights of options are computed from rows of logits, each after a path into the options: the tokens so far,
including forced tokens.

    (…)            row:  "phone" 0.2   `t` 0.8 (several are left)
    (…, t)         row:  "tv" 0.5   "tape" 0.5                        "tv" = 0.8 × 0.5
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.option_groups import ChoicePosition, options_left


def masked_probability(logits: torch.Tensor, state: State) -> float:
    """The share of the model's probability that the mask removes here (logits: (vocabulary,))."""
    allowed = torch.from_numpy(tokens_of(state.allowed())).to(logits.device)
    return 1.0 - float(logits.double().softmax(0)[allowed].sum())


@dataclass(frozen=True, slots=True)
class Shares:
    """How one row divides its probability: `settled` among options that the next token decides, `open` among tokens
    after which several options are left."""

    settled: dict[str, float]
    open: dict[int, float]


def shares_of(logits: torch.Tensor, state: State, position: ChoicePosition) -> Shares:
    """The share of each option, if the next token is sampled from the allowed tokens of this row."""
    allowed = tokens_of(state.allowed())
    chances = logits.double()[torch.from_numpy(allowed).to(logits.device)].softmax(0).tolist()
    shares = Shares({}, {})
    for token, chance in zip(allowed.tolist(), chances, strict=True):
        left = options_left(token, state, position)
        if left is None or left.high - left.low > 1:
            shares.open[token] = chance
        else:
            option = position.machine.options[left.low].decode()
            shares.settled[option] = shares.settled.get(option, 0.0) + chance
    return shares


TokenPath = tuple[int, ...]


@dataclass(slots=True)
class OptionWeights:
    """The weights of options from the paths in `rows`. The weight of all other paths is missing from the sum of 1."""

    rows: dict[TokenPath, Shares] = field(default_factory=dict)

    def options(self) -> dict[str, float]:
        weights: dict[TokenPath, float] = {}
        found: dict[str, float] = {}
        for way in sorted(self.rows, key=len):
            weights[way] = weight = self._weight(way, weights)
            for option, share in self.rows[way].settled.items():
                found[option] = found.get(option, 0.0) + weight * share
        return found

    def _weight(self, way: TokenPath, weights: dict[TokenPath, float]) -> float:
        """The weight of the longest shorter path in `rows`, times the share of the token that continues it."""
        if not weights:
            return 1.0
        before = next(way[:length] for length in range(len(way) - 1, -1, -1) if way[:length] in weights)
        return weights[before] * self.rows[before].open.get(way[len(before)], 0.0)
