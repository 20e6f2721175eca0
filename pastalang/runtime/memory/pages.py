"""Zeros for a memory that may never be filled: a shape comes in, a tensor whose pages are made on use goes out.

Filling a large pool with zeros takes a CPU longer than the first prompt; the system has zeroed pages for nothing, and
hands them out as they are written to.
"""

from __future__ import annotations

from math import prod

import numpy as np
import torch

_LINE = 64  # bytes: kernels read whole cache lines


def zeros(shape: tuple[int, ...], *, like: torch.Tensor) -> torch.Tensor:
    """Of the type and on the device of `like`."""
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    size = prod(shape) * like.element_size()
    pages = np.zeros(size + _LINE, dtype=np.uint8)
    start = -pages.ctypes.data % _LINE
    return torch.from_numpy(pages[start : start + size]).view(like.dtype).view(shape)
