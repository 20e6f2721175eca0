"""How far from every state of an automaton its end is, in characters and in bytes, between two limits of length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.dfa.spelling import Spelling
from pastalang.runtime.constraints.dfa.table import DEAD, Table
from pastalang.runtime.constraints.guide import GuideError

FAR = 1 << 30
_UNLIMITED = 1 << 40


class Lengths:
    """`least` to `most` characters in all. `_bytes[r, s]`: the fewest bytes from state s to an end, r characters on."""

    def __init__(self, table: Table, spelling: Spelling, least: int, most: int | None) -> None:
        self._least = least
        self._most = _UNLIMITED if most is None else most
        self._edges = _Edges(table, spelling)
        self._bytes = self._distances(table)
        finite = self._bytes < FAR
        self._before = np.zeros((len(finite) + 1, finite.shape[1]), dtype=np.int32)
        np.cumsum(finite, axis=0, out=self._before[1:])  # [r, s]: how many numbers of characters below r lead to an end
        self.most_bytes = int(self._bytes[finite].max(initial=0)) if least == 0 else _UNLIMITED
        if not self.fits(0, 0):
            raise GuideError("no string fits the pattern, the format and the limits of length together")

    def _distances(self, table: Table) -> NDArray[np.int32]:
        """As many rows as can matter: longer ways than these have a shorter one within the limits beside them."""
        states = table.size + 1
        last = np.where(table.accepting, 0, FAR).astype(np.int32)
        rows = [self._edges.within(last)]
        longest = min(self._most, self._least + states)
        while len(rows) <= longest:
            if not self._least and (np.minimum.reduce(rows)[:-1] < FAR).all():
                break
            rows.append(self._edges.within(self._edges.completing(rows[-1])))
        return np.stack(rows)

    # ── what is asked ────────────────────────────────────────────────────────────────────────────────────

    def allows(self, characters: int) -> bool:
        return self._least <= characters <= self._most

    def all_allow(self, characters: NDArray[np.int64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (characters >= self._least) & (characters <= self._most)
        return found

    def fits(self, state: int, characters: int) -> bool:
        """The same as `fit`, of one state."""
        rows = len(self._bytes)
        low = min(max(self._least - characters, 0), rows)
        beyond = min(max(self._most - characters + 1, low), rows)
        return bool(self._before.item(beyond, state) > self._before.item(low, state))

    def fit(self, states: NDArray[np.int64] | NDArray[np.int32], characters: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether from each state, with so many characters complete, some end lies within the limits."""
        rows = len(self._bytes)
        beyond = np.minimum(np.maximum(self._most - characters + 1, 0), rows)
        if not self._least:
            return self._before[beyond, states] > 0
        low = np.minimum(np.maximum(self._least - characters, 0), rows)
        found: NDArray[np.bool_] = self._before[np.maximum(beyond, low), states] > self._before[low, states]
        return found

    def room(self, characters: int, longest: int) -> tuple[int, int]:
        """What of the limits masks depend on: those far away are all alike."""
        return max(self._least - characters, 0), min(self._most - characters, longest + len(self._bytes))

    def ending(self, state: int, characters: int) -> bytes:
        """Few bytes to an end within the limits."""
        low = max(self._least - characters, 0)
        column = self._bytes[low : min(self._most - characters + 1, len(self._bytes)), state]
        left, text = low + int(column.argmin()), bytearray()
        while (ahead := int(self._bytes[left, state])) > 0:
            byte, state, completes = self._edges.nearer(state, self._bytes[: left + 1], left, ahead)
            text.append(byte)
            left -= completes
        return bytes(text)


class _Edges:
    """The ways of a table as ranges of bytes that lead alike, sorted by where they begin."""

    def __init__(self, table: Table, spelling: Spelling) -> None:
        rows = table.rows
        fresh = np.ones(rows.shape, dtype=np.bool_)
        fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
        states, bytes_ = np.nonzero(fresh & (rows != DEAD))
        self._from, self._byte, self._to = states, bytes_, rows[states, bytes_]
        self._starts = np.searchsorted(states, np.arange(len(rows) + 1))
        self._completes = spelling.completes[_places(self, table, spelling)[states], bytes_]
        self._states = len(rows)

    def span(self, state: int) -> slice:
        return slice(int(self._starts[state]), int(self._starts[state + 1]))

    def completing(self, before: NDArray[np.int32]) -> NDArray[np.int32]:
        """From the distances with one character less, by the bytes that complete one."""
        return self._least(before, self._completes)

    def within(self, found: NDArray[np.int32]) -> NDArray[np.int32]:
        """With the ways that complete no character: bytes inside one, and quotes."""
        while True:
            nearer = np.minimum(found, self._least(found, ~self._completes))
            if (nearer == found).all():
                return nearer
            found = nearer

    def _least(self, ahead: NDArray[np.int32], chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
        found = np.full(self._states, FAR, dtype=np.int32)
        edges = np.flatnonzero(chosen & (ahead[self._to] < FAR))
        np.minimum.at(found, self._from[edges], ahead[self._to[edges]] + 1)
        return found

    def nearer(self, state: int, bytes_: NDArray[np.int32], left: int, ahead: int) -> tuple[int, int, int]:
        """The byte, state and completed characters of a step to an end."""
        span = self.span(state)
        for byte, following, completes in zip(
            self._byte[span].tolist(), self._to[span].tolist(), self._completes[span].tolist(), strict=True
        ):
            if left >= completes and bytes_[left - completes, following] == ahead - 1:
                return byte, following, int(completes)
        raise AssertionError("a distance that no way has")


def _places(edges: _Edges, table: Table, spelling: Spelling) -> NDArray[np.int64]:
    """Where in the spelling each state is. All texts that lead to it are as far into a character."""
    found = np.zeros(len(table.rows), dtype=np.int64)
    found[0] = spelling.start
    seen, waiting = {0}, [0]
    while waiting:
        state = waiting.pop()
        span = edges.span(state)
        for byte, following in zip(edges._byte[span].tolist(), edges._to[span].tolist(), strict=True):
            if following not in seen:
                seen.add(following)
                found[following] = spelling.next[found[state], byte]
                waiting.append(following)
    return found
