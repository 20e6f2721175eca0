"""Masks for one step: what its tokens see comes in, one additive mask per kind of layer goes out.

A kind of layer is its window: None for layers that see the whole path, W for layers that see its last W tokens, the
token itself counted. Where nothing runs in parallel that is the ordinary sliding window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.layout.views import Sight

Window: TypeAlias = int | None


def visible(sight: Sight, *, window: Window) -> NDArray[np.bool_]:
    """Which cells each token attends to: (tokens, width)."""
    if window is None:
        return sight.order > 0
    hidden = np.maximum(sight.own - window, 0)  # this many cells of each path are too far back
    return sight.order > hidden[:, None]


def additive_masks(
    sight: Sight, windows: Iterable[Window], *, dtype: torch.dtype, device: torch.device
) -> dict[Window, torch.Tensor]:
    """0 where a token attends, -inf where it does not: (tokens, width) each. A token always attends to itself."""
    return {window: _additive(visible(sight, window=window), dtype=dtype, device=device) for window in windows}


def _additive(attends: NDArray[np.bool_], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    hidden = torch.from_numpy(~attends).to(device)
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
