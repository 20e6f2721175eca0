"""The interface between the engine and a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch

from pastalang.runtime.models.carried import Carried
from pastalang.runtime.models.probe_tokens import ProbeTokens
from pastalang.runtime.step import StepBatch


class Model(Protocol):
    """A causal model with a KV cache of `cells` cells.

    The scheduler numbers the cells and rows, and it alone knows which are in use. A cell is read only by the rows that
    see it, so a freed cell may be written again at once. Rows grow on demand.
    """

    @property
    def vocabulary(self) -> int:
        """How many logits a token has. At least the tokenizer's size; the rest is padding."""
        ...

    @property
    def max_position(self) -> int:
        """The highest position that a token may have."""
        ...

    @property
    def cells(self) -> int:
        """How many cells the KV cache has."""
        ...

    @property
    def probe_tokens(self) -> ProbeTokens | None:
        """What was trained to predict tokens ahead. Their ids follow those of the vocabulary."""
        ...

    @property
    def carried(self) -> Carried:
        """What it carries of what plans may ask for."""
        ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    def forward(self, batch: StepBatch) -> torch.Tensor:
        """Feeds one step. Returns the logits of the wanted tokens, (wanted, vocabulary), on the model's device."""
        ...


@runtime_checkable
class Compiles(Protocol):
    """A model whose passes compile what they need when they first need it, and keep it."""

    def compile_kernels(self) -> Iterator[None]:
        """Compile it before: a part at each step, for the thread in which the step is taken."""
        ...


def computed_in(model: Model) -> str:
    """The type of a model's weights, in which the other types of its products are."""
    return "torch.int8" if getattr(model, "in_int8", False) else str(model.dtype)
