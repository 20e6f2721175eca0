"""Which tokens a mask lets through, kept per mask: bit masks come in, the logits of the allowed tokens go out.

Masks are shared by all holes that stand in the same state, and most holes allow very few tokens or nearly all. So
the indexes are worked out once per mask, and a step only gathers the allowed logits, or strikes the forbidden ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.decode.guide import TokenMask

BLOCK = 128  # rows are whole blocks, so that maxima and sums can be taken block by block
_FEW = 4 * BLOCK  # up to here allowed logits are gathered, beyond it forbidden ones are struck


@dataclass(frozen=True, slots=True)
class Candidates:
    """`logits` (rows, columns), -inf where there is no candidate. `tokens` names the columns of each row.

    Half precision is widened; a row has the same number of columns whatever the other rows are, so that its sums
    are added in the same order.
    """

    rows: tuple[int, ...]
    logits: torch.Tensor
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
class _Indexes:
    mask: TokenMask  # held, so that its identity stays its own
    are_allowed: bool
    tokens: NDArray[np.int64]

    @property
    def bytes(self) -> int:
        return self.tokens.nbytes + self.mask.nbytes


class Masks:
    """What the masks seen lately let through; beyond `limit` bytes those not seen for longest are forgotten.

    Only masks that nobody can write to are remembered, by their identity; others are read anew every time.
    """

    def __init__(self, vocabulary: int, *, limit: int = 1 << 27) -> None:
        self._vocabulary = vocabulary
        self._limit = limit
        self._size = 0
        self._known: OrderedDict[int, _Indexes] = OrderedDict()

    def candidates(self, logits: torch.Tensor, masks: Sequence[TokenMask | None]) -> tuple[Candidates, ...]:
        """`logits` (rows, vocabulary) as one or two groups: the rows with few candidates, and the others."""
        few: dict[int, NDArray[np.int64]] = {}
        many: dict[int, NDArray[np.int64]] = {}
        for row, mask in enumerate(masks):
            found = None if mask is None else self._indexes(mask)
            if found is None:
                many[row] = np.zeros(0, dtype=np.int64)
            else:
                (few if found.are_allowed else many)[row] = found.tokens
        groups = []
        if few:
            groups.append(_gather(logits, few))
        if many:
            groups.append(_strike(logits, many))
        return tuple(groups)

    def _indexes(self, mask: TokenMask) -> _Indexes:
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

    def _read(self, mask: TokenMask) -> _Indexes:
        """A mask may be shorter than the model's vocabulary (its tail is padding) or longer."""
        bits = np.unpackbits(np.ascontiguousarray(mask).view(np.uint8), bitorder="little")[: self._vocabulary]
        allowed = np.zeros(self._vocabulary, dtype=bool)
        allowed[: len(bits)] = bits
        is_few = int(allowed.sum()) <= min(_FEW, self._vocabulary // 2)
        return _Indexes(mask, is_few, np.flatnonzero(allowed if is_few else ~allowed))


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
    return Candidates(tuple(allowed), values, tokens_of)


def _strike(logits: torch.Tensor, forbidden: Mapping[int, NDArray[np.int64]]) -> Candidates:
    vocabulary = logits.shape[1]
    width = -(-vocabulary // BLOCK) * BLOCK
    values = torch.full((len(forbidden), width), float("-inf"), dtype=_wide(logits.dtype), device=logits.device)
    values[:, :vocabulary] = logits if len(forbidden) == len(logits) else logits[list(forbidden)]
    flat = np.concatenate([tokens + line * width for line, tokens in enumerate(forbidden.values())])
    values.view(-1)[torch.from_numpy(flat).to(logits.device)] = float("-inf")
    return Candidates(tuple(forbidden), values, None)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32
