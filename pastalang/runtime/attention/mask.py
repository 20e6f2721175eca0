"""Masks for one step: what its tokens see comes in, one additive mask per kind of layer goes out.

A kind of layer is its window: None for layers that see the whole path, W for layers that see its last W tokens, the
token itself counted. Where nothing runs in parallel that is the ordinary sliding window.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.attention.clusters import Block
from pastalang.runtime.attention.views import Sight

Window: TypeAlias = int | None
Attends: TypeAlias = NDArray[np.bool_]


def visible(sight: Sight, *, window: Window) -> Attends:
    """Which cells each token attends to: (tokens, width)."""
    if window is None:
        return sight.order > 0
    return sight.order > _hidden(sight, window)[:, None]


def visible_in(block: Block, sight: Sight, *, window: Window) -> Attends:
    """The same for a block: (clusters, tokens, cells). What only fills it up attends to the first cell alone."""
    order = sight.order[block.tokens[:, :, None], block.cells[:, None, :]]
    attends: Attends = order > 0 if window is None else order > _hidden(sight, window)[block.tokens][:, :, None]
    for line, (tokens, cells) in enumerate(block.sizes):
        attends[line, :, cells:] = False
        attends[line, tokens:, 0] = True
    return attends


def additive(attends: Attends, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """0 where a token attends, -inf where it does not. No row may be all -inf: every token sees itself."""
    hidden = torch.from_numpy(~attends).to(device)
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))


def _hidden(sight: Sight, window: int) -> NDArray[np.int32]:
    """How many cells of each token's path are too far back: (tokens,)."""
    return np.maximum(sight.own - window, 0)
