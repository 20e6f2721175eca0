"""Attention while the model trains on a processor: row by row, in products of the type that the training multiplies in.

No row of a line sees another, and the kernel of torch for processors computes every pair of a line, twice as slowly as
two products of matrices. What is compared is exact, as in that kernel: scores are float32, shares have the type of the
products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from pastalang.runtime.models.reference import attention_of

Rows: TypeAlias = Sequence[tuple[int, int, int]]  # the number of a line; where in it a row begins and ends

_BY_ROWS: Final = "pasta_mini_by_rows"
_ROWS: ContextVar[Rows] = ContextVar("pasta_mini_rows")


@contextmanager
def attending_by(rows: Rows, model: Any) -> Iterator[None]:
    """For models with as many key heads as heads, whose batches hold these rows and padding."""
    reset = _ROWS.set(rows)
    try:
        with attention_of(model, _BY_ROWS):
            yield
    finally:
        _ROWS.reset(reset)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    device = query.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype
    with torch.autocast(device, enabled=False):
        rounded = (tensor.to(kind) for tensor in (query, key, value))
        attended: Tensor = _ByRows.apply(*rounded, attention_mask.float(), scaling, _ROWS.get())  # type: ignore[no-untyped-call]
    return attended.transpose(1, 2).contiguous(), None


class _ByRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, rows: Rows
    ) -> Tensor:
        attended, shares = torch.zeros_like(query), []
        for line, begin, end in rows:
            here = line, slice(None), slice(begin, end)
            scores = (query[here].float() * scaling) @ key[here].float().mT
            scores += mask[line, :, begin:end, begin:end]
            shares.append(scores.softmax(-1).to(value.dtype))
            attended[here] = shares[-1] @ value[here]
        ctx.save_for_backward(query, key, value, *shares)
        ctx.scaling, ctx.rows = scaling, rows
        return attended

    @staticmethod
    def backward(ctx: Any, grown: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *shares = ctx.saved_tensors
        to_query, to_key, to_value = (torch.zeros_like(tensor) for tensor in (query, key, value))
        for (line, begin, end), share in zip(ctx.rows, shares, strict=True):
            here = line, slice(None), slice(begin, end)
            to_value[here] = share.mT @ grown[here]
            to_share = grown[here] @ value[here].mT
            to_scores = ctx.scaling * torch._softmax_backward_data(to_share, share, -1, share.dtype)
            to_query[here], to_key[here] = to_scores @ key[here], to_scores.mT @ query[here]
        return to_query, to_key, to_value, None, None, None


AttentionInterface.register(_BY_ROWS, _attend)
AttentionMaskInterface.register(_BY_ROWS, sdpa_mask)
