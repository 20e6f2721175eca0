"""Weights of linear layers in int8, a quarter of what float32 takes: a pass of few tokens does little but read them.

A row of a weight has one scale, and so has each row of states when it is multiplied. Sums of integers are exact, so the
product of a row is the same bit for bit however many others are multiplied with it.

torch has two sets of kernels. Both take states as unsigned bytes, and both exceed what they add in 16 bits on a
processor without instructions for int8 (VNNI) unless the states have a bit less. Which of these is exact is tried.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import sqrt
from time import perf_counter
from typing import Any, Final, Protocol, cast

import torch
from torch import nn

from pastalang.runtime.models.packed import PackedLinear, replace_linear

INT8: Final = "int8"
_MOST: Final = 127  # of a weight
_LEVELS: Final = (127, 63)  # of states: 8 bits, or 7
_ROWS: Final = 16  # of the states that the layout of oneDNN is best for
_MIXED: Final = 16  # numbers of a row
_TRIED: Final = 64  # weights of a row that is tried: their sum is exact in float32


class Kernels(Protocol):
    """`states` are shares of the largest of their row, from -1 to 1, in so many `levels` on each side of 0."""

    @property
    def levels(self) -> int: ...

    def prepared(self, weight: torch.Tensor, scales: torch.Tensor) -> Any: ...

    def multiply(self, states: torch.Tensor, prepared: Any) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class Fbgemm:
    """Quantises the states itself, so it is the fastest where there are few."""

    levels: int

    def prepared(self, weight: torch.Tensor, scales: torch.Tensor) -> Any:
        zeros = torch.zeros(len(weight), dtype=torch.long)
        tensor = torch._make_per_channel_quantized_tensor(weight, scales.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(tensor, None)

    def multiply(self, states: torch.Tensor, prepared: Any) -> torch.Tensor:
        multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        return cast(torch.Tensor, multiply(states, 1 / self.levels, self.levels + 1, prepared))


@dataclass(frozen=True, slots=True)
class OneDNN:
    """The kernels of torch's own compiler."""

    levels: int

    def prepared(self, weight: torch.Tensor, scales: torch.Tensor) -> Any:
        packed = torch.ops.onednn.qlinear_prepack(weight, [_ROWS, weight.shape[1]])
        return packed, scales / self.levels, torch.zeros(len(weight), dtype=torch.int32)

    def multiply(self, states: torch.Tensor, prepared: Any) -> torch.Tensor:
        bytes_ = (states * self.levels).add_(self.levels + 1.5).to(torch.uint8)  # signed ones have no fast kernel
        rest: tuple[Any, ...] = (None, 1.0, 0, torch.float32, "none", [], "")
        found = torch.ops.onednn.qlinear_pointwise(bytes_, 1.0, self.levels + 1, *prepared, *rest)
        return cast(torch.Tensor, found.view(*states.shape[:-1], found.shape[-1]))  # of no rows, it forgets the shape


class QuantizedLinear(PackedLinear):
    """Replaces a `Linear` in float32, for inference only."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None, kernels: Kernels | None = None) -> None:
        nn.Module.__init__(self)
        found = kernels or kernels_here()
        assert found is not None, "this processor has been tried before"
        self._kernels = found
        self.out_features, self.in_features = weight.shape
        self.dtype = torch.float32
        full = weight.detach().float()
        scales = full.abs().amax(1).clamp_min_(torch.finfo(torch.float32).tiny).div_(_MOST)
        self._prepared = found.prepared((full / scales[:, None]).round_().to(torch.int8), scales)
        self._bias = None if bias is None else bias.detach().float()

    @property
    def kind(self) -> tuple[object, ...]:
        return INT8, *super().kind

    def rows_for(self, rows: int) -> int:
        """As many as there are for Fbgemm, whose kernels take 11 KB for a number of rows."""
        return rows if isinstance(self._kernels, Fbgemm) else super().rows_for(rows)

    def _multiply(self, states: torch.Tensor) -> torch.Tensor:
        most = states.abs().amax(-1, keepdim=True)
        # a row of zeros is divided by zero; whatever its product is, it is finite, and multiplied by zero
        product = self._kernels.multiply(states / most, self._prepared).mul_(most)
        return product if self._bias is None else product.add_(self._bias)


class MixedLinear(QuantizedLinear):
    """For states with numbers that stand out: groups of numbers are mixed first, and so are those of the weight."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None, kernels: Kernels | None = None) -> None:
        matrix = _hadamard(weight.shape[1])
        super().__init__(_mixed(weight.detach().float(), matrix), bias, kernels)
        self._matrix = matrix

    def _multiply(self, states: torch.Tensor) -> torch.Tensor:
        return super()._multiply(_mixed(states, self._matrix))


def _mixed(states: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Each group of numbers, multiplied by the matrix. A row is a product of its own, so none rounds by its company."""
    rows = states.reshape(-1, len(matrix), states.shape[-1] // len(matrix))
    return torch.bmm(matrix.expand(len(rows), -1, -1), rows).view(states.shape)


def _hadamard(width: int) -> torch.Tensor:
    """The largest matrix whose size divides the width, of up to 16."""
    matrix = torch.ones(1, 1)
    while len(matrix) < _MIXED and width % (2 * len(matrix)) == 0:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / sqrt(len(matrix))


def quantise(model: nn.Module) -> tuple[int, int]:
    """Quantises every plain `Linear` in float32 on a CPU. Returns the number of weights in int8, and of other matrices
    that are not tables of embeddings."""
    replace_linear(model, QuantizedLinear, {torch.float32})
    layers = [layer for layer in model.modules() if isinstance(layer, QuantizedLinear)]
    tables = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    rest = sum(each.numel() for each in model.parameters() if each.dim() > 1 and id(each) not in tables)
    return sum(layer.in_features * layer.out_features for layer in layers), rest


def is_quantised(model: nn.Module) -> bool:
    return any(isinstance(layer, QuantizedLinear) for layer in model.modules())


@cache
def kernels_here() -> Kernels | None:
    """The first that are exact on this processor with this build of torch, and not a reference; None if none are."""
    tried: tuple[Kernels, ...] = tuple(kind(levels) for levels in _LEVELS for kind in (Fbgemm, OneDNN))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # once: that Fbgemm's tensors are to go, and then there is oneDNN
        return next((kernels for kernels in tried if is_exact(kernels) and _is_fast(kernels)), None)


@torch.inference_mode()
def is_exact(kernels: Kernels) -> bool:
    """Whether the largest numbers that there can be give the sum of their products, to the last unit."""
    weight = torch.full((4, _TRIED), _MOST, dtype=torch.int8)
    weight[1::2] = -_MOST
    weight[2:, ::2] = 1
    states = torch.ones(3, _TRIED)
    states[1] = -1.0
    states[2, 1::2] = 0.0
    try:
        found = kernels.multiply(states, kernels.prepared(weight, torch.ones(len(weight))))
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    expected = states.double() @ weight.double().T
    return bool(((found.double() - expected) * kernels.levels).abs().max() < 0.5)


@torch.inference_mode()
def _is_fast(kernels: Kernels) -> bool:
    """Whether they take less time than float32, give or take a lot: references take a hundred times as long."""
    states, weight = torch.ones(_ROWS, _TRIED * 4), torch.ones(_TRIED * 4, _TRIED * 4)
    prepared = kernels.prepared(weight.to(torch.int8), torch.ones(len(weight)))
    return _least(lambda: kernels.multiply(states, prepared)) < 10 * _least(
        lambda: nn.functional.linear(states, weight)
    )


def _least(product: Callable[[], object]) -> float:
    found = []
    for _ in range(5):
        start = perf_counter()
        product()
        found.append(perf_counter() - start)
    return min(found)
