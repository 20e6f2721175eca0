"""A model that computes nothing and keeps everything: what decoding feeds comes in, a training row's tensors go out."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.attention.views import Views
from pastalang.runtime.step import StepBatch

Numbers: TypeAlias = NDArray[np.int32]
Sees: TypeAlias = NDArray[np.bool_]


class Recording:
    """Tokens in the order in which decoding feeds them, by the engine's own table of views."""

    def __init__(self, cells: int) -> None:
        self._views = Views(cells)
        self._in_cell: Numbers = np.zeros(cells, dtype=np.int32)  # which recorded token a cell holds
        self._seen: list[Numbers] = []  # of each token: the recorded tokens that it sees, itself last
        self.tokens: list[int] = []
        self.positions: list[int] = []

    def feed(self, batch: StepBatch) -> tuple[int, ...]:
        """Keep a step. Gives, for every row of logits that it asks for, the recorded token that they stand behind."""
        first = len(self.tokens)
        sight = self._views.look(batch)
        self._in_cell[np.array(batch.cells, dtype=np.intp)] = np.arange(first, first + len(batch), dtype=np.int32)
        self._seen += [self._in_cell[np.flatnonzero(order)] for order in sight.order]
        self.tokens += batch.tokens
        self.positions += batch.positions
        self._views.settle(batch, sight)
        return tuple(first + index for index in batch.wanted)

    def copy_of(self, token: int) -> int:
        """A second place for a recorded token, which nobody sees: for logits that have to say two things."""
        place = len(self.tokens)
        seen = self._seen[token]
        self._seen.append(np.append(seen[seen != token], np.int32(place)))
        self.tokens.append(self.tokens[token])
        self.positions.append(self.positions[token])
        return place

    def visible(self) -> Sees:
        """(length, length): who sees whom."""
        visible = np.zeros((len(self.tokens), len(self.tokens)), dtype=np.bool_)
        for token, seen in enumerate(self._seen):
            visible[token, seen] = True
        return visible
