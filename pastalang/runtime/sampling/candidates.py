"""Apply masks to logits: the candidates of each row are its allowed tokens with their logits.

Most holes allow either very few tokens or nearly all. For few tokens, their ids are computed once per mask, because
holes in the same state share a mask, and a step only gathers their logits. For many tokens, a table maps eight bits of
the mask at a time to numbers that are added to the logits: 0 for an allowed token, -inf for all others.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import TokenMask

BLOCK = 128  # columns: rows are padded to whole blocks, so that maxima and sums can be computed block by block
_FEW = 4 * BLOCK  # allowed tokens: up to here their logits are gathered


@dataclass(frozen=True, slots=True)
class Candidates:
    """`logits` (rows, columns) are -inf for columns without a candidate. `tokens` are the token ids of the columns.

    Half precision is widened. The number of columns of a row does not depend on the other rows, so that its sums are
    always added in the same order. `peaks` (rows, blocks) are the highest logits of each block; NaN counts as highest.
    """

    rows: tuple[int, ...]
    logits: torch.Tensor
    peaks: torch.Tensor
    tokens: torch.Tensor | None  # None: column t is token t
    vocabulary: int

    def token(self, columns: torch.Tensor) -> torch.Tensor:
        """The token in one column of each row: (rows,)."""
        return columns if self.tokens is None else self.tokens.gather(1, columns[:, None])[:, 0]

    def columns_of(self, row: int, tokens: Sequence[int]) -> torch.Tensor:
        """The columns of these tokens in a row, without tokens that are not candidates."""
        wanted = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=self.logits.device)
        if self.tokens is None:
            return wanted
        return torch.isin(self.tokens[row], wanted).nonzero()[:, 0]


@dataclass(frozen=True, slots=True)
class _Known:
    mask: ref[TokenMask]  # tells the cache when the array is gone, whose id another one may get then
    tokens: NDArray[np.int64] | None  # the allowed tokens, if they are few
    bytes: int


class MaskCache:
    """Caches the allowed tokens of masks, up to `limit` bytes; the least recently used masks are dropped first.

    Only read-only masks are cached, by identity; a writable mask is read every time. A mask whose guide is gone is
    forgotten: an engine that meets new types for as long as it runs would keep masks that nobody can ask for.
    """

    def __init__(self, vocabulary: int, *, limit: int = 1 << 27) -> None:
        self._vocabulary = vocabulary
        self._limit = limit
        self._size = 0
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._gone: deque[int] = deque()  # ids of masks that are no more, from whichever thread dropped them

    def __len__(self) -> int:
        self._forget()
        return len(self._known)

    def candidates(self, logits: torch.Tensor, masks: Sequence[TokenMask | None]) -> tuple[Candidates, ...]:
        """One or two groups of the rows of `logits` (rows, vocabulary): with few candidates, and with many."""
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
        self._forget()
        found = self._known.get(id(mask))
        if found is None:
            found = self._known[id(mask)] = self._read(mask)
            self._size += found.bytes
            while self._size > self._limit:
                self._size -= self._known.popitem(last=False)[1].bytes
        else:
            self._known.move_to_end(id(mask))
        return found

    def _forget(self) -> None:
        while self._gone:
            known = self._known.pop(self._gone.popleft(), None)
            self._size -= 0 if known is None else known.bytes

    def _read(self, mask: TokenMask) -> _Known:
        """A mask may be shorter or longer than the model's logits, which may be padded."""
        allowed = _bits(mask)[: self._vocabulary]
        is_few = np.count_nonzero(allowed) <= min(_FEW, self._vocabulary // 2)
        tokens = np.flatnonzero(allowed) if is_few else None
        size = mask.nbytes + (0 if tokens is None else tokens.nbytes)
        return _Known(ref(mask, partial(_note, self._gone, id(mask))), tokens, size)


def _note(gone: deque[int], mask: int, _: ref[TokenMask]) -> None:
    gone.append(mask)


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
    return Candidates(tuple(allowed), values, peaks_of(values), tokens_of, logits.shape[1])


def _strike(logits: torch.Tensor, masks: Mapping[int, TokenMask | None]) -> Candidates:
    """Add -inf to the logits that are not allowed. If one of them is NaN or +inf, fill all of them instead: slower."""
    vocabulary = logits.shape[1]
    width = -(-vocabulary // BLOCK) * BLOCK
    alike: dict[int, list[int]] = {}  # rows with the same mask: it is read once
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
    if added.device.type == "cpu":
        for part, one in zip(parts, added, strict=True):
            torch.add(given[part], one[:vocabulary], out=struck[part, :vocabulary])
    else:  # where a call takes longer than what it does
        lines = torch.tensor([line for line, group in enumerate(alike.values()) for _ in group], device=added.device)
        torch.add(given, added.index_select(0, lines)[:, :vocabulary], out=struck[:, :vocabulary])
    peaks = peaks_of(struck)
    if peaks.isnan().any():
        forbidden = torch.from_numpy(~_bits(words).reshape(len(words), width)[:, :vocabulary]).to(given.device)
        for part, one in zip(parts, forbidden, strict=True):
            struck[part, :vocabulary] = given[part].to(struck.dtype).masked_fill(one, float("-inf"))
        peaks = peaks_of(struck)
    return Candidates(tuple(rows), struck, peaks, None, vocabulary)


def _words(masks: Sequence[TokenMask | None], *, width: int) -> NDArray[np.uint32]:
    """The masks, padded to the width of the rows: (masks, width / 32)."""
    words = np.zeros((len(masks), width // 32), dtype=np.uint32)
    for line, mask in enumerate(masks):
        if mask is None:
            words[line] = ~np.uint32(0)
        else:
            words[line, : len(mask)] = mask[: words.shape[1]]
    return words


def _added(words: NDArray[np.uint32], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """0 for every bit that is set and -inf for every other: (rows, bits)."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    table = torch.zeros(256, 8, dtype=dtype).masked_fill_(torch.from_numpy(bits == 0), float("-inf"))
    index = torch.from_numpy(words.view(np.uint8).reshape(-1)).to(device)
    return table.to(device).index_select(0, index.int()).view(len(words), -1)


def peaks_of(values: torch.Tensor) -> torch.Tensor:
    return values.view(len(values), -1, BLOCK).amax(dim=2)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32
