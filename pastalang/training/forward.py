"""The forward pass of training: logits and loss of a batch, with the mask and positions of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pastalang.training.batches import Batch
from pastalang.training.recording import IGNORED


def logits_of(model: Any, batch: Batch, *, where: Tensor | None = None) -> Tensor:
    """(rows, length, vocabulary), or (places, vocabulary) for the places of a mask `where`, (rows, length).

    The visible set is always given as a mask: without one, gaps would be read as packed rows.
    """
    visible = batch.visible if batch.visible is not None else _causal(batch)
    mask = torch.zeros(visible.shape, dtype=_mask_dtype(model), device=visible.device)
    mask = mask.masked_fill_(~visible, torch.finfo(mask.dtype).min)[:, None]
    with nullcontext() if where is None else _head_sees(model, where):
        output = model(
            input_ids=batch.tokens, position_ids=batch.positions, attention_mask=_by_layer(model, mask), use_cache=False
        )
    logits: Tensor = output.logits
    return logits


def loss_of(model: Any, batch: Batch) -> Tensor:
    """The mean over the predicted tokens of the batch, in float32. Logits are computed only at labels."""
    labelled = batch.labels != IGNORED
    logits = logits_of(model, batch, where=labelled)
    return cross_entropy(logits.float(), batch.labels[labelled])


@contextmanager
def _head_sees(model: Any, where: Tensor) -> Iterator[None]:
    """The model's last matrix, the largest of a small model, is multiplied with these places only."""
    head = model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, inputs: (inputs[0][where], *inputs[1:]))
    try:
        yield
    finally:
        handle.remove()


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
