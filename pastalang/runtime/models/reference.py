"""The reference: logits of one token, computed from scratch without a KV cache.

The visible tokens are fed at their positions through the model's own eager attention, and each of them sees what it
saw when it was decoded. The fast path has to agree with the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pastalang.runtime.attention.masks import FULL, SLIDING, layer_windows
from pastalang.runtime.attention.plain_views import FedToken


def reference_logits(model: Any, token: FedToken) -> torch.Tensor:
    """The logits of one token: (vocabulary,). `model` is a transformers causal model."""
    return reference_path(model, token)[-1]


@torch.inference_mode()
def reference_path(model: Any, token: FedToken) -> torch.Tensor:
    """The logits of everything that a token sees and of the token itself, which is last: (tokens, vocabulary)."""
    tokens = _dependencies(token)
    device = model.device
    with attention_of(model, "eager"):
        logits: torch.Tensor = model(
            input_ids=torch.tensor([[fed.token for fed in tokens]], device=device),
            position_ids=torch.tensor([[fed.position for fed in tokens]], device=device),
            attention_mask=_masks(model, tokens),
            use_cache=False,
        ).logits
    return logits[0]


def _dependencies(token: FedToken) -> list[FedToken]:
    """All tokens that the token depends on, and itself last. Each comes after the tokens that it sees."""
    ordered: dict[int, FedToken] = {}

    def visit(fed: FedToken) -> None:
        for seen in fed.sees:
            if id(seen) not in ordered:
                visit(seen)
        ordered[id(fed)] = fed

    visit(token)
    return list(ordered.values())


def _masks(model: Any, tokens: list[FedToken]) -> torch.Tensor | dict[str, torch.Tensor]:
    """One mask if all layers are of one kind, else one mask for each kind of layer."""
    windows = set(layer_windows(model.config.get_text_config()))
    if len(windows) == 1:
        return _mask(model, tokens, window=windows.pop())
    sliding = next(window for window in windows if window is not None)
    return {FULL: _mask(model, tokens, window=None), SLIDING: _mask(model, tokens, window=sliding)}


def _mask(model: Any, tokens: list[FedToken], *, window: int | None) -> torch.Tensor:
    sees = torch.tensor([[query.may_see(key, window=window) for key in tokens] for query in tokens])
    blocked = torch.full(sees.shape, torch.finfo(model.dtype).min, dtype=model.dtype)
    return blocked.masked_fill_(sees, 0.0)[None, None].to(model.device)


@contextmanager
def attention_of(model: Any, name: str) -> Iterator[None]:
    """The model attends with the implementation of this name in transformers."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
