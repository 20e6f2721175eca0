"""Make, join and read token masks. Bit t % 32 of word t // 32 allows token t."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import TokenMask

_FEW = 300  # tokens: up to here it is quicker to set bits one by one, in a large vocabulary
_SMALL = 1 << 14  # tokens: in a smaller vocabulary it never is


def empty_mask(size: int) -> TokenMask:
    return np.zeros((size + 31) // 32, dtype=np.uint32)


def mask_of(size: int, tokens: Iterable[int] | NDArray[np.int64]) -> TokenMask:
    """The mask of exactly these tokens. It is read-only, because holes share masks."""
    ids = tokens if isinstance(tokens, np.ndarray) else np.fromiter(tokens, dtype=np.int64)
    if size > _SMALL and len(ids) <= _FEW:
        mask = empty_mask(size)
        np.bitwise_or.at(mask, ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))
        return frozen(mask)
    flags = np.zeros((size + 31) // 32 * 32, dtype=np.bool_)
    flags[ids] = True
    return frozen(np.packbits(flags, bitorder="little").view(np.uint32))


def join_masks(size: int, masks: Sequence[TokenMask]) -> TokenMask:
    """The tokens that at least one of the masks allows."""
    if len(masks) == 1:
        return masks[0]
    joined = empty_mask(size)
    for mask in masks:
        np.bitwise_or(joined, mask, out=joined)
    return frozen(joined)


def frozen(mask: TokenMask) -> TokenMask:
    mask.flags.writeable = False
    return mask


def allows(mask: TokenMask, token: int) -> bool:
    return bool(mask[token >> 5] >> np.uint32(token & 31) & np.uint32(1))


def tokens_of(mask: TokenMask) -> NDArray[np.int64]:
    """The allowed tokens, ascending."""
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
