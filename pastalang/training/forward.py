"""From a model and a batch to logits and loss, with the batch's own mask and positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pastalang.training.batch import IGNORED, Batch


def logits_of(model: Any, batch: Batch) -> Tensor:
    """(rows, length, vocabulary). The mask is always given: without one, gaps would be read as packed rows."""
    visible = batch.visible if batch.visible is not None else _causal(batch)
    mask = torch.zeros(visible.shape, dtype=_mask_dtype(model), device=visible.device)
    mask = mask.masked_fill_(~visible, torch.finfo(mask.dtype).min)[:, None]
    output = model(
        input_ids=batch.tokens, position_ids=batch.positions, attention_mask=_by_layer(model, mask), use_cache=False
    )
    logits: Tensor = output.logits
    return logits


def loss_of(model: Any, batch: Batch) -> Tensor:
    """The mean over the predicted tokens of the batch, in float32."""
    logits = logits_of(model, batch)
    return cross_entropy(logits.flatten(0, 1).float(), batch.labels.flatten(), ignore_index=IGNORED)


def _causal(batch: Batch) -> Tensor:
    rows, length = batch.tokens.shape
    triangle = torch.ones(length, length, dtype=torch.bool, device=batch.tokens.device).tril()
    return triangle.expand(rows, length, length)


def _mask_dtype(model: Any) -> torch.dtype:
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda" if torch.is_autocast_enabled("cuda") else "cpu")
    dtype: torch.dtype = next(model.parameters()).dtype
    return dtype


def _by_layer(model: Any, mask: Tensor) -> Tensor | dict[str, Tensor]:
    """Models of mixed layers take one mask per kind; a single one would silently drop their windows."""
    kinds = set(getattr(model.config, "layer_types", None) or ())
    if kinds <= {"full_attention"}:
        return mask
    raise ValueError(
        f"training with layers of the kinds {', '.join(sorted(kinds))} is not supported: "
        "a window along branches has no mask here yet"
    )
