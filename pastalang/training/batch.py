"""One training batch: token ids with their positions, who sees whom, and what is to be predicted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORED = -100  # a label that costs nothing


@dataclass(frozen=True, slots=True)
class Batch:
    """`tokens`, `positions`, `labels`: (rows, length). `visible`: (rows, length, length) bool, or None: causal.

    `labels[r, i]` is what the logits at place i have to say; it need not be the token at i + 1.
    `origins` names where each row came from, so that a bad one can be found.
    """

    tokens: Tensor
    positions: Tensor
    labels: Tensor
    visible: Tensor | None
    origins: tuple[str, ...]

    def __post_init__(self) -> None:
        assert self.tokens.shape == self.positions.shape == self.labels.shape
        assert self.visible is None or self.visible.shape == (*self.tokens.shape, self.tokens.shape[1])
        assert len(self.origins) == self.tokens.shape[0]

    @property
    def predicted(self) -> int:
        """How many tokens the loss is over."""
        return int((self.labels != IGNORED).sum())

    def to(self, device: torch.device) -> Batch:
        return Batch(
            self.tokens.to(device),
            self.positions.to(device),
            self.labels.to(device),
            None if self.visible is None else self.visible.to(device),
            self.origins,
        )
