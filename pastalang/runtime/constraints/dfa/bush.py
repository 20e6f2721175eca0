"""A few rows as a small tree, level by level: many states are led down all of it at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.token_bytes import Bytes, Rows
from pastalang.runtime.constraints.trie import Ints


class Bush:
    """Rows that begin alike and stand side by side share their beginning."""

    def __init__(self, rows: Rows) -> None:
        self._levels: list[tuple[Ints, Bytes]] = []  # of each node its parent in the level above, and its byte
        self._node = np.zeros(len(rows), dtype=np.int64)  # where each row ends, counted over all levels
        flat, lengths = rows.letters.flat, rows.ends - rows.starts
        here = np.arange(len(rows))
        above, base, depth = np.zeros(len(rows), dtype=np.int64), 0, 0
        while len(here):
            byte = flat[rows.starts[here] + depth]
            fresh = np.ones(len(here), dtype=np.bool_)
            fresh[1:] = (above[1:] != above[:-1]) | (byte[1:] != byte[:-1])
            self._levels.append((above[fresh], byte[fresh]))
            above = np.cumsum(fresh) - 1
            depth += 1
            is_end = lengths[here] == depth
            self._node[here[is_end]] = base + above[is_end]
            base += len(self._levels[-1][1])
            here, above = here[~is_end], above[~is_end]
        self.size = base

    def follow(self, table: NDArray[np.int32], states: NDArray[np.int32]) -> NDArray[np.int32]:
        """(states, rows): where each row leads from each of these states."""
        found = np.empty((len(states), self.size), dtype=np.int32)
        here, base = states[:, None], 0
        for parents, byte in self._levels:
            here = table[here[:, parents], byte]
            found[:, base : base + len(byte)] = here
            base += len(byte)
        return found[:, self._node]
