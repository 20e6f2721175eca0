"""The forward pass of training: logits and loss of a batch, with the mask and positions of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from torch.nn.functional import cross_entropy
from torch.torch_version import TorchVersion

from pastalang.runtime.attention.masks import FULL, SLIDING, layer_windows
from pastalang.runtime.models.cache_argument import cache_argument
from pastalang.training.batches import Batch
from pastalang.training.errors import BadData
from pastalang.training.recording import IGNORED

Mask: TypeAlias = Tensor | BlockMask
Where: TypeAlias = Tensor | tuple[Tensor, ...]  # a mask (rows, length), or the numbers of rows and of places in them
_FLEX: Final = "flex_attention"  # in transformers
_FLEX_TORCH: Final = "2.13"  # the first version that it was tested with


def logits_of(model: Any, batch: Batch, *, where: Where | None = None, cache: Any = None) -> Tensor:
    """(rows, length, vocabulary), or (places, vocabulary) for the places `where`.

    The visible set is always given as a mask: without one, gaps would be read as packed rows. A `cache` of
    transformers is filled with keys and values.
    """
    masks = masks_of(model, lambda window: _seen(batch, window))
    with nullcontext() if where is None else _head_sees(model, where):
        output = model(
            input_ids=batch.tokens, position_ids=batch.positions, attention_mask=masks,
            use_cache=cache is not None, **cache_argument(model, cache),
        )  # fmt: skip
    logits: Tensor = output.logits
    return logits


def loss_of(model: Any, batch: Batch, where: Where | None = None) -> Tensor:
    """The mean over the predicted tokens of the batch, in float32. Logits are computed only at labels.

    `where` names the places of the labels, if they are known.
    """
    labelled = batch.labels != IGNORED if where is None else where
    logits = logits_of(model, batch, where=labelled)
    return cross_entropy(logits.float(), batch.labels[labelled])


@contextmanager
def _head_sees(model: Any, where: Where) -> Iterator[None]:
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


def check_flex(device: torch.device) -> None:
    """Raises `BadData` where FlexAttention cannot train."""
    if device.type != "cuda":
        raise BadData(f"--attention flex is for GPUs of CUDA: on {device.type}, it has no gradients")
    if TorchVersion(torch.__version__) < _FLEX_TORCH:
        raise BadData(f"--attention flex was tested with torch {_FLEX_TORCH}, and this is {torch.__version__}")


def attend_in_blocks(model: Any) -> None:
    """The passes of this model use FlexAttention. Raises `BadData` if it cannot."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    if getattr(bare.config.get_text_config(), "attention_dropout", 0.0):
        raise BadData("--attention flex has no dropout, and the config.json of this model asks for `attention_dropout`")
    try:
        bare.set_attn_implementation(_FLEX)
    except ValueError as problem:
        raise BadData(f"--attention flex: {next(iter(str(problem).splitlines()), '')}") from problem


def window_of(model: Any) -> int | None:
    """How many tokens of its path a token attends to in the model's sliding layers; None without such layers."""
    return next((window for window in layer_windows(model.config.get_text_config()) if window is not None), None)


def masks_of(model: Any, seen: Callable[[int | None], Tensor]) -> Mask | dict[str, Mask]:
    """Models of mixed layers take one mask per kind; a single one would silently drop their windows. `seen` says what
    tokens see in layers with such a window, or without one."""
    kinds = set(layer_windows(model.config.get_text_config()))
    is_flex = getattr(model.config, "_attn_implementation", None) == _FLEX
    make: Callable[[Tensor], Mask] = _in_blocks if is_flex else partial(_additive, dtype=_mask_dtype(model))
    found = {window: make(seen(window)) for window in kinds}
    if len(found) == 1:
        return found.popitem()[1]
    [sliding] = (mask for window, mask in found.items() if window is not None)
    return {FULL: found[None], SLIDING: sliding}


def _seen(batch: Batch, window: int | None) -> Tensor:
    """(rows, length, length). Without a mask of its own, a batch holds one text per line."""
    if batch.visible is None:
        causal = _causal(batch)
        return causal if window is None else causal & ~causal.tril(-window)
    return batch.visible if window is None or batch.near is None else batch.near


def _in_blocks(visible: Tensor) -> BlockMask:
    """Blocks that nobody sees are left out. In the others, the kernel looks up each pair."""
    rows, length, _ = visible.shape
    return create_block_mask(
        lambda row, _, token, other: visible[row, token, other], rows, None, length, length, device=visible.device
    )


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]
