"""What the engine needs of a model: a `StepBatch` comes in, logits go out."""

from __future__ import annotations

from typing import Protocol

import torch

from pastalang.runtime.step import StepBatch


class Model(Protocol):
    """Weights, and a memory of `cells` cells that the steps fill.

    Cells and rows are named by the scheduler, which alone knows which are in use; a cell is read only by the
    rows that see it, so a freed cell may be written again at once. Rows grow on demand.
    """

    @property
    def vocabulary(self) -> int:
        """How many logits a token has (at least the tokenizer's size; the tail may be padding)."""
        ...

    @property
    def max_position(self) -> int:
        """The highest position that the model may be fed."""
        ...

    @property
    def cells(self) -> int:
        """How many cells the memory holds."""
        ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    def forward(self, batch: StepBatch) -> torch.Tensor:
        """Feed one step. Returns the logits of the wanted tokens, (wanted, vocabulary), on the model's device."""
        ...
