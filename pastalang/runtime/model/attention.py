"""The attention that models call: queries, keys and values come in, what the step's masks let through goes out.

    query (1, heads, tokens, size)   keys, values (1, kv heads, width, size)   mask (tokens, width)

The queries that share a key-value head are put side by side, so that keys and values are read once and never
repeated. The masks of the running step travel in a context variable, because some families drop what they do not
know on the way to their attention.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from pastalang.runtime.layout.mask import Window

ATTENTION = "pastalang"  # unknown to transformers' mask makers on purpose: they then make no mask at all


class StepMasks:
    """The masks of one step, by layer, in the shape that the grouped queries need."""

    def __init__(self, masks: dict[Window, torch.Tensor], windows: tuple[Window, ...]) -> None:
        self._masks = masks
        self._windows = windows
        self._grouped: dict[tuple[Window, int], torch.Tensor] = {}
        self.used_by: set[int] = set()  # layers; all of them, or the model goes its own way somewhere

    def of(self, layer: int, *, groups: int) -> torch.Tensor:
        """(1, 1, groups x tokens, width)."""
        self.used_by.add(layer)
        window = self._windows[layer]
        if (window, groups) not in self._grouped:
            self._grouped[window, groups] = self._masks[window].repeat(groups, 1)[None, None]
        return self._grouped[window, groups]


STEP_MASKS: ContextVar[StepMasks] = ContextVar("pastalang_step_masks")


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Returns (1, tokens, heads, size)."""
    batch, heads, tokens, size = query.shape
    kv_heads = key.shape[1]
    groups = heads // kv_heads  # from the tensors: the configurations of some families lie
    layer: int = module.layer_idx  # type: ignore[assignment]
    mask = STEP_MASKS.get().of(layer, groups=groups)
    grouped = query.reshape(batch, kv_heads, groups * tokens, size)
    if softcap is None and s_aux is None:
        out = scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scaling)
    else:
        scores = torch.matmul(grouped, key.transpose(2, 3)) * (size**-0.5 if scaling is None else scaling)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        out = torch.matmul(_softmax(scores + mask, s_aux, tokens), value)
    return out.reshape(batch, heads, tokens, value.shape[-1]).transpose(1, 2), None


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None, tokens: int) -> torch.Tensor:
    """Over the cells and, where the model has one per head, a sink that takes its share and gives nothing."""
    if sinks is None:
        return scores.softmax(-1)
    batch, kv_heads, rows, _ = scores.shape
    sink = sinks.view(1, kv_heads, rows // tokens, 1).expand(batch, -1, -1, tokens).reshape(batch, kv_heads, rows, 1)
    return torch.cat([scores, sink.to(scores.dtype)], dim=-1).softmax(-1)[..., :-1]


AttentionInterface.register(ATTENTION, attend)
