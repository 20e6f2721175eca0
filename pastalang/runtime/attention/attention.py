"""The attention that models call: queries, keys and values come in, what the step's masks let through goes out.

    query (1, heads, tokens, size)   keys, values (1, kv heads, width, size)

The queries that share a key-value head are put side by side, so that keys and values are read once and never
repeated. The masks of the running step travel in a context variable, because some families drop what they do not
know on the way to their attention.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface

from pastalang.runtime.attention.masks import AttentionCall, StepMasks

ATTENTION = "pastalang"  # unknown to transformers' mask makers on purpose: they then make no mask at all
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
    """Returns (1, tokens, heads, size). Tokens that only fill the step up attend to nothing and get 0."""
    step = STEP_MASKS.get()
    filling = query.shape[2] - step.tokens
    query = query[:, :, : step.tokens]
    window = step.window(module.layer_idx)  # type: ignore[arg-type]
    groups = query.shape[1] // key.shape[1]  # from the tensors: the configurations of some families lie
    outs = []
    for part in step.parts:
        asked, keys, values = _queries(query, part, key.shape[1]), _gathered(key, part), _gathered(value, part)
        mask = part.mask(window, groups=groups)
        if softcap is None and s_aux is None:
            out = scaled_dot_product_attention(asked, keys, values, attn_mask=mask, scale=scaling)
        else:
            out = _weighed(asked, keys, values, mask, scaling=scaling, softcap=softcap, sinks=s_aux)
        outs.append(_by_token(out, groups))
    together = outs[0] if len(outs) == 1 else torch.cat(outs)
    ordered = together if step.places is None else together[step.places]
    return (pad(ordered, (0, 0, 0, 0, 0, filling)) if filling else ordered)[None], None


def _queries(query: torch.Tensor, part: AttentionCall, kv_heads: int) -> torch.Tensor:
    """(clusters, kv heads, groups x tokens, size)."""
    _, heads, _, size = query.shape
    if isinstance(part.tokens, slice):
        return query[:, :, part.tokens].reshape(1, kv_heads, -1, size)
    asked = query[0].index_select(1, part.tokens).view(kv_heads, heads // kv_heads, part.clusters, -1, size)
    return asked.permute(2, 0, 1, 3, 4).reshape(part.clusters, kv_heads, -1, size)


def _gathered(states: torch.Tensor, part: AttentionCall) -> torch.Tensor:
    """(clusters, kv heads, cells, size)."""
    if isinstance(part.cells, slice):
        return states[:, :, part.cells]
    kv_heads, _, size = states.shape[1:]
    return states[0].index_select(1, part.cells).view(kv_heads, part.clusters, -1, size).transpose(0, 1)


def _by_token(out: torch.Tensor, groups: int) -> torch.Tensor:
    """From (clusters, kv heads, groups x tokens, size) to (clusters x tokens, heads, size)."""
    clusters, kv_heads, _, size = out.shape
    return out.view(clusters, kv_heads, groups, -1, size).permute(0, 3, 1, 2, 4).reshape(-1, kv_heads * groups, size)


def _weighed(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    *,
    scaling: float | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention spelled out, for models that cap their scores or have a sink per head."""
    scores = torch.matmul(query, key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return torch.matmul(_softmax(scores + mask, sinks), value)


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Over the cells and, where the model has one per head, a sink that takes its share and gives nothing."""
    if sinks is None:
        return scores.softmax(-1)
    clusters, kv_heads, rows, _ = scores.shape
    groups = len(sinks) // kv_heads
    sink = (
        sinks.view(1, kv_heads, groups, 1).expand(clusters, -1, -1, rows // groups).reshape(clusters, kv_heads, rows, 1)
    )
    return torch.cat([scores, sink.to(scores.dtype)], dim=-1).softmax(-1)[..., :-1]


AttentionInterface.register(ATTENTION, attend)
