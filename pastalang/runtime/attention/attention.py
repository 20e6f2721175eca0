"""Attention of one layer under the masks of the running step.

    query (1, heads, tokens, size)   keys, values (1, kv heads, width, size)

Queries that share a key-value head are stacked, so keys and values are read once and never repeated.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from pastalang.runtime.attention.masks import AttentionCall, StepMasks, Window


def attend(
    step: StepMasks,
    window: Window,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scaling: float | None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """(tokens, heads, size)."""
    groups = query.shape[1] // key.shape[1]  # not from the configuration, which is wrong in some families
    is_plain = softcap is None and sinks is None
    shared = step.shared if is_plain and key.shape[3] == value.shape[3] else None  # joined by the weights of both parts
    also = step.shared if shared is None else None  # copied into every cluster
    outs, weights = [], []
    for call in step.calls:
        queries, mask = _queries(query, call, key.shape[1]), _mask(call, window, groups, also)
        keys, values = _gathered(key, call, also), _gathered(value, call, also)
        if shared is not None:
            out, weight = _weighed_attention(queries, keys, values, mask, scaling=scaling)
            weights.append(_by_token(weight, groups))
        elif is_plain:
            out = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scaling)
        else:
            out = _explicit_attention(queries, keys, values, mask, scaling=scaling, softcap=softcap, sinks=sinks)
        outs.append(_by_token(out, groups))
    ordered = _ordered(outs, step)
    if shared is None:
        return ordered
    queries = query.reshape(1, key.shape[1], -1, query.shape[3])
    out, weight = _weighed_attention(queries, key[:, :, shared], value[:, :, shared], None, scaling=scaling)
    share = torch.sigmoid(_by_token(weight, groups) - _ordered(weights, step)).to(out.dtype)
    return torch.lerp(ordered, _by_token(out, groups), share)


def ready_kernels(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU, the kernels that take any shape as it comes. Those of cuDNN, which torch prefers on new ones, are
    planned for each shape that they meet, and hardly two steps have the same."""
    return _READY if device.type == "cuda" else nullcontext()


class _ReadyKernels(AbstractContextManager[None]):
    """Which kernels may be taken is a setting of the process: the last thread that leaves puts it back."""

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._setting = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._setting.enter_context(sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._setting.close()


_READY = _ReadyKernels()


def _ordered(parts: list[torch.Tensor], step: StepMasks) -> torch.Tensor:
    """The results of all calls in the order of the tokens."""
    joined = parts[0] if len(parts) == 1 else torch.cat(parts)
    return joined if step.places is None else joined[step.places]


def _weighed_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, *, scaling: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel of a CPU, which also returns the logarithm of the sum of the weights: (clusters, heads, tokens, 1)."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, weight = kernel(query, key, value, attn_mask=mask, scale=scaling)
    return out, weight[..., None]


def _mask(call: AttentionCall, window: Window, groups: int, also: slice | None) -> torch.Tensor:
    mask = call.mask(window, groups=groups)
    return mask if also is None else pad(mask, (also.stop - also.start, 0))


def _queries(query: torch.Tensor, call: AttentionCall, kv_heads: int) -> torch.Tensor:
    """(clusters, kv heads, groups x tokens, size)."""
    _, heads, _, size = query.shape
    if isinstance(call.tokens, slice):
        return query[:, :, call.tokens].reshape(1, kv_heads, -1, size)
    selected = query[0].index_select(1, call.tokens).view(kv_heads, heads // kv_heads, call.clusters, -1, size)
    return selected.permute(2, 0, 1, 3, 4).reshape(call.clusters, kv_heads, -1, size)


def _gathered(states: torch.Tensor, call: AttentionCall, also: slice | None) -> torch.Tensor:
    """(clusters, kv heads, cells, size), after the cells `also`."""
    if isinstance(call.cells, slice):
        own = states[:, :, call.cells]
    else:
        kv_heads, _, size = states.shape[1:]
        own = all_cells(states).index_select(1, call.cells).view(kv_heads, call.clusters, -1, size).transpose(0, 1)
    return own if also is None else torch.cat([states[:, :, also].expand(call.clusters, -1, -1, -1), own], dim=2)


def all_cells(states: torch.Tensor) -> torch.Tensor:
    """(kv heads, cells, size), also of the cells beyond the width of the step.

    On a CPU, `index_select` makes a copy of everything that it selects from, unless that has no gaps.
    """
    heads, _, size = states.shape[1:]
    cells, rest = divmod(states.stride(1), size)
    if rest or states.storage_offset() or states.stride()[2:] != (size, 1):
        return states[0]  # a model did something else with what the cache returned
    return states.as_strided((heads, cells, size), (states.stride(1), size, 1))


def _by_token(out: torch.Tensor, groups: int) -> torch.Tensor:
    """(clusters x tokens, heads, size), for `out` of (clusters, kv heads, groups x tokens, size)."""
    clusters, kv_heads, _, size = out.shape
    by_token = out.view(clusters, kv_heads, groups, -1, size).permute(0, 3, 1, 2, 4)
    return by_token.reshape(-1, kv_heads * groups, size).contiguous()  # as some families expect it


def _explicit_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    *,
    scaling: float | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention written out, for models that cap their scores or have one sink per head."""
    scores = torch.matmul(query, key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return torch.matmul(_softmax(scores + mask, sinks), value)


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Softmax over the cells. A sink takes a share of the probability and adds nothing to the result."""
    if sinks is None:
        return scores.softmax(-1)
    clusters, kv_heads, rows, _ = scores.shape
    groups = len(sinks) // kv_heads
    sink = (
        sinks.view(1, kv_heads, groups, 1).expand(clusters, -1, -1, rows // groups).reshape(clusters, kv_heads, rows, 1)
    )
    return torch.cat([scores, sink.to(scores.dtype)], dim=-1).softmax(-1)[..., :-1]
