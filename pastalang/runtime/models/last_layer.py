"""Spares the last layer of a model the tokens whose logits nobody reads: its feed-forward part leaves them out.

Every other layer needs all tokens, because the next one attends to them. Most tokens of a prompt are read by nobody.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pastalang.runtime.attention.masks import LastLayer
from pastalang.runtime.models.packed import PackedLinear
from pastalang.runtime.models.step_attention import STEP_MASKS

_NAME = "mlp"  # of the feed-forward part, in nearly all families
_TRIAL, _ROUNDING = 16, 0.05  # tokens; how far results may differ by rounding in half precision


def spare_last_layer(model: Any, layers: int) -> None:
    """For good. Does nothing unless that part is made of matrix products alone and sees one token at a time."""
    width = model.config.get_text_config().hidden_size
    for layer in model.modules():
        part = getattr(layer, _NAME, None)
        if not isinstance(part, nn.Module) or _choose in part._forward_pre_hooks.values():
            continue
        if _is_last(layer, layers) and _is_dense(part) and _sees_one_token_at_a_time(part, model, width):
            part.register_forward_pre_hook(_choose)
            part.register_forward_hook(_spread)


def _is_last(layer: nn.Module, layers: int) -> bool:
    return any(getattr(child, "layer_idx", None) == layers - 1 for child in layer.children())


def _is_dense(part: nn.Module) -> bool:
    """Whether all parameters are those of linear layers."""
    return all(
        isinstance(module, nn.Linear | PackedLinear) or not list(module.parameters(recurse=False))
        for module in part.modules()
    )


@torch.inference_mode()
def _sees_one_token_at_a_time(part: nn.Module, model: Any, width: int) -> bool:
    """Whether some of the tokens have the results that they have among all."""
    states = torch.arange(_TRIAL * width, device=model.device).sin().to(model.dtype).view(1, _TRIAL, width)
    some = slice(_TRIAL // 4, _TRIAL // 2)
    try:
        among_all, alone = part(states), part(states[:, some])
    except Exception:  # anything: the code of a family, or of a user
        return False
    if (
        not isinstance(among_all, torch.Tensor)
        or among_all.shape != states.shape
        or alone.shape != states[:, some].shape
    ):
        return False
    difference = (among_all[:, some] - alone).abs().max()
    return bool(difference <= _ROUNDING * among_all.abs().max())


def _choose(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    last = _last()
    if last is None or len(given) != 1 or given[0].shape[:2] != (1, last.tokens):
        return None
    return (last.chosen(given[0]),)


def _spread(_: nn.Module, given: tuple[Any, ...], found: torch.Tensor) -> torch.Tensor | None:
    last = _last()
    if last is None or found.shape[:2] != (1, len(last.wanted)):
        return None
    return last.spread(found)


def _last() -> LastLayer | None:
    step = STEP_MASKS.get(None)
    return None if step is None else step.last
