"""Repacks the weights of linear layers for the matrix kernels of a CPU.

Without packing, every product rearranges its weights first. A small step does little more than read all weights once,
so packing makes it take about half as long. Only the order in memory changes, not a single value.

The kernels are compiled for each number of rows and kept, half a megabyte for each kind of layer. A server sees every
number of rows sooner or later, so products are made of few numbers of rows: some rows are added and thrown away. And it
compiles them all when it starts: met one by one, they take memory for hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any, cast

import torch
from torch import nn

PACKED_TYPES = (torch.bfloat16, torch.float32)
_TOKENS = 16  # the layout is best for steps of about this size
_STEPS = ((32, 1), (64, 4), (128, 8), (256, 16), (512, 32))  # up to so many rows, a multiple of this
_MOST_ROWS = 512
_MOST_NUMBERS = 1 << 24  # of a product that is made to compile its kernel: the head is never asked for that many


class PackedLinear(nn.Module):
    """Replaces a `Linear`, for inference only: the weight has no gradient and is not in the state dict."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.dtype = weight.dtype
        self._weight = _reorder(weight.detach(), _TOKENS)
        self._bias = None if bias is None else bias.detach()

    @property
    def kind(self) -> tuple[object, ...]:
        """Products of the same kind share their kernels."""
        return self.in_features, self.out_features, self.dtype, self._bias is not None

    def rows_for(self, rows: int) -> int:
        """With how many rows these are multiplied, of up to 512 at a time."""
        return rows_for(rows)

    @torch.inference_mode()
    def compile_for(self, rows: int) -> None:
        self._multiply(torch.zeros(1, rows, self.in_features, dtype=self.dtype))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        rows = states.numel() // self.in_features
        if rows == self.rows_for(rows):
            return self._multiply(states)
        flat = states.reshape(rows, self.in_features)
        parts = [flat[start : start + _MOST_ROWS] for start in range(0, rows, _MOST_ROWS)]
        product = torch.cat([self._filled(part) for part in parts]) if len(parts) > 1 else self._filled(parts[0])
        return product.view(*states.shape[:-1], self.out_features)

    def _filled(self, states: torch.Tensor) -> torch.Tensor:
        rows = len(states)
        return self._multiply(nn.functional.pad(states, (0, 0, 0, rows_for(rows) - rows)))[:rows]

    def _multiply(self, states: torch.Tensor) -> torch.Tensor:
        return _product(states, self._weight, self._bias, "none", [], "")

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self._bias is not None}"


def rows_for(rows: int) -> int:
    """With how many rows these are multiplied, of up to 512 at a time."""
    step = next((step for most, step in _STEPS if rows <= most), 0)
    return -(-rows // step) * step if step else _MOST_ROWS


def compile_kernels(products: Iterable[object]) -> Iterator[None]:
    """Compiles those of the packed products among these: one at each step, few rows first, for the thread it is in."""
    packed = {one.kind: one for one in products if isinstance(one, PackedLinear)}
    for rows in sorted({rows_for(rows) for rows in range(1, _MOST_ROWS + 1)}):
        for product in packed.values():
            if rows * product.out_features <= _MOST_NUMBERS:
                product.compile_for(rows)
                yield


def pack(model: nn.Module) -> int:
    """Replaces every plain `Linear` on a CPU whose type has kernels here. Returns how many.

    Each original weight is freed as soon as its copy is made, so at most one weight is in memory twice. A weight that
    is shared with the embedding stays in memory next to its packed copy.
    """
    dtypes = {dtype for dtype in PACKED_TYPES if can_pack(dtype)}
    return replace_linear(model, PackedLinear, dtypes)


def replace_linear(model: nn.Module, kind: Callable[..., PackedLinear], dtypes: Set[torch.dtype]) -> int:
    """Replaces every plain `Linear` on a CPU of one of these types. Returns how many."""
    found = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if _fits(child) and child.weight.dtype in dtypes
    ]  # names, because a list of the children would keep all their weights until the end
    for parent, name in found:
        linear = getattr(parent, name)
        setattr(parent, name, kind(linear.weight, linear.bias))
        del linear
    return len(found)


def can_pack(dtype: torch.dtype = torch.float32) -> bool:
    """Tries a small product: True if this build of torch has the kernels and this processor runs them in `dtype`.

    Trying is the only safe test. The kernels for bfloat16 need instructions that most laptops lack, and which
    instructions these are changes from one version of torch to the next.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    linear = nn.Linear(8, 8, dtype=dtype)
    states = torch.ones(1, 8, dtype=dtype)
    tolerance = 1e-5 if dtype is torch.float32 else 0.05
    try:
        with torch.inference_mode():
            return torch.allclose(PackedLinear(linear.weight, linear.bias)(states), linear(states), atol=tolerance)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False


def _fits(module: nn.Module) -> bool:
    return type(module) is nn.Linear and module.weight.device.type == "cpu"


def _reorder(weight: torch.Tensor, tokens: int) -> torch.Tensor:
    return cast(torch.Tensor, _operation("_reorder_linear_weight")(weight, tokens))


def _product(*arguments: Any) -> torch.Tensor:
    return cast(torch.Tensor, _operation("_linear_pointwise")(*arguments))


def _operation(name: str) -> Callable[..., Any]:
    return cast(Callable[..., Any], getattr(torch.ops.mkldnn, name))
