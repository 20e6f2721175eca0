"""float64 that is float64: transformers computes norms, softmax and rotary angles in float32 whatever the dtype.

For tests only. `in_float64(model)` converts the model; `wide_softmax` is a context in which softmax keeps its dtype.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch


def in_float64(model: Any) -> Any:
    """The same model with weights and norms in float64. Rotary angles stay as they are: both sides share them."""
    model.double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = types.MethodType(_norm, module)
    return model


@contextmanager
def wide_softmax() -> Iterator[None]:
    """`softmax(x, dtype=float32)` of a float64 tensor stays float64 inside."""
    narrow = torch.nn.functional.softmax

    def softmax(scores: torch.Tensor, dim: int | None = None, **options: Any) -> torch.Tensor:
        if scores.dtype is torch.float64:
            options.pop("dtype", None)
        return narrow(scores, dim=dim, **options)

    with mock.patch.object(torch.nn.functional, "softmax", softmax):
        yield


def _norm(self: Any, states: torch.Tensor) -> torch.Tensor:
    epsilon = self.variance_epsilon if hasattr(self, "variance_epsilon") else self.eps
    scaled = states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + epsilon)
    offset = 1.0 if type(self).__name__.startswith("Gemma") else 0.0
    return scaled * (self.weight + offset)
