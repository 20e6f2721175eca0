"""Which tokens a mask lets through: bit masks and logits come in, the logits of the allowed tokens go out.

Most holes allow very few tokens or nearly all. Where they are few, their numbers are worked out once per mask, because
holes that stand alike share it, and a step only gathers their logits. Where they are many, the mask's bits are looked
up, eight at a time, as numbers to add: 0 for what is allowed, -inf for what is not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import TokenMask

BLOCK = 128  # rows are whole blocks, so that maxima and sums can be taken block by block
_FEW = 4 * BLOCK  # up to here allowed logits are gathered


@dataclass(frozen=True, slots=True)
class Candidates:
    """`logits` (rows, columns), -inf where there is no candidate. `tokens` names the columns of each row.

    Half precision is widened; a row has the same number of columns whatever the other rows are, so that its sums
    are added in the same order. `peaks` (rows, blocks) are the highest logits of each block, NaN before all numbers.
    """

    rows: tuple[int, ...]
    logits: torch.Tensor
    peaks: torch.Tensor
    tokens: torch.Tensor | None  # None: column t is token t

    def token(self, columns: torch.Tensor) -> torch.Tensor:
        """The tokens in the given column of each row: (rows,)."""
        return columns if self.tokens is None else self.tokens.gather(1, columns[:, None])[:, 0]

    def columns_of(self, row: int, tokens: Sequence[int]) -> torch.Tensor:
        """Where the given tokens stand in a row; those that are no candidates are left out."""
        wanted = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=self.logits.device)
        if self.tokens is None:
            return wanted
        return torch.isin(self.tokens[row], wanted).nonzero()[:, 0]


@dataclass(frozen=True, slots=True)
class _Known:
    mask: TokenMask  # held, so that its identity stays its own
    tokens: NDArray[np.int64] | None  # that it allows, where they are few

    @property
    def bytes(self) -> int:
        return self.mask.nbytes + (0 if self.tokens is None else self.tokens.nbytes)


class MaskCache:
    """What the masks seen lately let through; beyond `limit` bytes those not seen for longest are forgotten.

    Only masks that nobody can write to are remembered, by their identity; others are read anew every time.
    """

    def __init__(self, vocabulary: int, *, limit: int = 1 << 27) -> None:
        self._vocabulary = vocabulary
        self._limit = limit
        self._size = 0
        self._known: OrderedDict[int, _Known] = OrderedDict()

    def candidates(self, logits: torch.Tensor, masks: Sequence[TokenMask | None]) -> tuple[Candidates, ...]:
        """`logits` (rows, vocabulary) as one or two groups: the rows with few candidates, and the others."""
        few: dict[int, NDArray[np.int64]] = {}
        many: dict[int, TokenMask | None] = {}
        for row, mask in enumerate(masks):
            tokens = None if mask is None else self._look_up(mask).tokens
            if tokens is None:
                many[row] = mask
            else:
                few[row] = tokens
        groups = []
        if few:
            groups.append(_gather(logits, few))
        if many:
            groups.append(_strike(logits, many))
        return tuple(groups)

    def _look_up(self, mask: TokenMask) -> _Known:
        if mask.flags.writeable:
            return self._read(mask)
        found = self._known.get(id(mask))
        if found is None:
            found = self._known[id(mask)] = self._read(mask)
            self._size += found.bytes
            while self._size > self._limit:
                self._size -= self._known.popitem(last=False)[1].bytes
        else:
            self._known.move_to_end(id(mask))
        return found

    def _read(self, mask: TokenMask) -> _Known:
        """A mask may be shorter than the model's vocabulary (its tail is padding) or longer."""
        allowed = _bits(mask)[: self._vocabulary]
        is_few = np.count_nonzero(allowed) <= min(_FEW, self._vocabulary // 2)
        return _Known(mask, np.flatnonzero(allowed) if is_few else None)


def _bits(mask: TokenMask) -> NDArray[np.bool_]:
    return np.unpackbits(np.ascontiguousarray(mask).view(np.uint8), bitorder="little").view(np.bool_)


def _gather(logits: torch.Tensor, allowed: Mapping[int, NDArray[np.int64]]) -> Candidates:
    index = np.zeros((len(allowed), _FEW), dtype=np.int64)
    absent = np.ones((len(allowed), _FEW), dtype=bool)
    for line, tokens in enumerate(allowed.values()):
        index[line, : len(tokens)] = tokens
        absent[line, : len(tokens)] = False
    device = logits.device
    tokens_of = torch.from_numpy(index).to(device)
    values = logits[torch.tensor(list(allowed), device=device)[:, None], tokens_of].to(_wide(logits.dtype))
    values.masked_fill_(torch.from_numpy(absent).to(device), float("-inf"))
    return Candidates(tuple(allowed), values, peaks_of(values), tokens_of)


def _strike(logits: torch.Tensor, masks: Mapping[int, TokenMask | None]) -> Candidates:
    """What is struck may be NaN or infinite and stays so where it is added to; then it is filled in, which is slow."""
    vocabulary = logits.shape[1]
    width = -(-vocabulary // BLOCK) * BLOCK
    alike: dict[int, list[int]] = {}  # holes that stand alike share their mask, which is then read once
    for row, mask in masks.items():
        alike.setdefault(id(mask), []).append(row)
    rows = [row for group in alike.values() for row in group]
    ends = list(accumulate(map(len, alike.values())))
    parts = [slice(end - len(group), end) for end, group in zip(ends, alike.values(), strict=True)]
    words = _words([masks[group[0]] for group in alike.values()], width=width)
    given = logits if rows == list(range(len(logits))) else logits[rows]
    added = _added(words, dtype=_wide(given.dtype), device=given.device)
    struck = added.new_empty(len(rows), width)
    struck[:, vocabulary:] = float("-inf")
    for part, one in zip(parts, added, strict=True):
        torch.add(given[part], one[:vocabulary], out=struck[part, :vocabulary])
    peaks = peaks_of(struck)
    if peaks.isnan().any():
        forbidden = torch.from_numpy(~_bits(words).reshape(len(words), width)[:, :vocabulary]).to(given.device)
        for part, one in zip(parts, forbidden, strict=True):
            struck[part, :vocabulary] = given[part].to(struck.dtype).masked_fill(one, float("-inf"))
        peaks = peaks_of(struck)
    return Candidates(tuple(rows), struck, peaks, None)


def _words(masks: Sequence[TokenMask | None], *, width: int) -> NDArray[np.uint32]:
    """As long as the rows are: (masks, width / 32)."""
    words = np.zeros((len(masks), width // 32), dtype=np.uint32)
    for line, mask in enumerate(masks):
        if mask is None:
            words[line] = ~np.uint32(0)
        else:
            words[line, : len(mask)] = mask[: words.shape[1]]
    return words


def _added(words: NDArray[np.uint32], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """0 where a bit is set and -inf where it is not: (rows, bits)."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    table = torch.zeros(256, 8, dtype=dtype).masked_fill_(torch.from_numpy(bits == 0), float("-inf"))
    index = torch.from_numpy(words.view(np.uint8).reshape(-1)).to(device)
    return table.to(device).index_select(0, index.int()).view(len(words), -1)


def peaks_of(values: torch.Tensor) -> torch.Tensor:
    return values.view(len(values), -1, BLOCK).amax(dim=2)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32
