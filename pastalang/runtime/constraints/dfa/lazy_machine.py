"""The machine of a value whose automaton is too large for a table: its states are built when they are reached.

So no automaton is ever built completely and none can explode. For every state, all tokens run through the automaton at
once; the machine caches the tokens that stay inside and the state each reaches. A limit allows the tokens whose state
is near enough to an ending.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.dfa.table import DEAD, Automaton
from pastalang.runtime.constraints.guide import MachineState, TokenMask
from pastalang.runtime.constraints.masks import mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import ROOT, Ints

_MAX_MASKS = 512
_WARM_STATES = 32
_WARM_TOKENS = 3_000  # transitions in all; from every state of an open pattern most tokens stay inside


class LazyMachine:
    """See `guide.Machine`. Its states are numbered in the order in which they are reached."""

    def __init__(self, automaton: Automaton, seam: Seam) -> None:
        self._automaton = automaton
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._index: dict[Hashable, int] = {}
        self._states: list[Hashable] = []
        self._edges: list[Mapping[int, Hashable] | None] = []
        self._rows: NDArray[np.int32] = np.full((16, 256), DEAD, dtype=np.int32)
        self._ready: NDArray[np.bool_] = np.zeros(16, dtype=np.bool_)
        self._accepting: NDArray[np.bool_] = np.zeros(16, dtype=np.bool_)
        self._endings: dict[int, bytes] = {}
        self._transitions: BoundedCache[int, _Transitions] = BoundedCache(_MAX_MASKS)
        self._masks: BoundedCache[tuple[int, int | None], TokenMask] = BoundedCache(_MAX_MASKS)

    @property
    def start(self) -> MachineState:
        return self._number(self._automaton.start)

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        following = int(self._row(self._at(state))[byte])
        return None if following == DEAD else following

    def accepts(self, state: MachineState) -> bool:
        return bool(self._accepting[self._at(state)])

    def can_continue(self, state: MachineState) -> bool:
        return bool(self._edges_of(self._at(state)))

    def stop_bytes(self, state: MachineState) -> int:
        return 0

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        return self._tokens.shortest(self._ending(self._at(state)))

    def forced(self, state: MachineState) -> bytes:
        found, at = bytearray(), self._at(state)
        while not self._accepting[at] and len(edges := self._edges_of(at)) == 1:
            byte, following = next(iter(edges.items()))
            found.append(byte)
            at = self._number(following)
        return bytes(found)

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        at = self._at(state)
        transitions = self._transitions_from(at)
        if remaining is not None and remaining - 1 >= transitions.farthest and self._tokens.vocabulary.covers_bytes:
            remaining = None
        return self._masks.cached((at, remaining), lambda: self._make_mask(transitions, remaining))

    def warm(self) -> None:
        """Compute the masks of the states nearest to the start, so that no step of a run has to."""
        waiting, followed = [self._number(self._automaton.start)], 0
        seen = set(waiting)
        while waiting and len(seen) <= _WARM_STATES and followed <= _WARM_TOKENS:
            at = waiting.pop(0)
            self.mask(at, None)
            transitions = self._transitions[at]
            followed += len(transitions.tokens)
            fresh = [end for end in np.unique(transitions.ends).tolist() if end not in seen]
            seen.update(fresh)
            waiting += fresh

    # ── states ─────────────────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _at(state: MachineState) -> int:
        assert isinstance(state, int)
        return state

    def _number(self, state: Hashable) -> int:
        found = self._index.get(state)
        if found is None:
            found = len(self._states)
            self._index[state] = found
            self._states.append(state)
            self._edges.append(None)
            if found >= len(self._rows):
                self._grow()
            self._accepting[found] = self._automaton.accepts(state)
        return found

    def _grow(self) -> None:
        more = len(self._rows)
        self._rows = np.concatenate([self._rows, np.full((more, 256), DEAD, dtype=np.int32)])
        self._ready = np.concatenate([self._ready, np.zeros(more, dtype=np.bool_)])
        self._accepting = np.concatenate([self._accepting, np.zeros(more, dtype=np.bool_)])

    def _edges_of(self, at: int) -> Mapping[int, Hashable]:
        found = self._edges[at]
        if found is None:
            found = self._edges[at] = self._automaton.edges(self._states[at])
        return found

    def _row(self, at: int) -> NDArray[np.int32]:
        if not self._ready[at]:
            numbers = {byte: self._number(following) for byte, following in self._edges_of(at).items()}
            self._rows[at, list(numbers)] = list(numbers.values())
            self._ready[at] = True
        row: NDArray[np.int32] = self._rows[at]
        return row

    def _ending(self, at: int) -> bytes:
        if at not in self._endings:
            self._endings[at] = self._automaton.ending(self._states[at])
        return self._endings[at]

    # ── tokens ─────────────────────────────────────────────────────────────────────────────────────────────

    def _transitions_from(self, at: int) -> _Transitions:
        return self._transitions.cached(at, lambda: self._follow(at))

    def _follow(self, at: int) -> _Transitions:
        """Run the automaton down the trie level by level, all nodes of a level at once."""
        trie = self._tokens.trie
        nodes, states = np.array([ROOT]), np.array([at])
        tokens, ends, crossing = [], [], []
        while len(nodes):
            self._prepare(states)
            children, parent = trie.expand(nodes)
            following = self._rows[states[parent], trie.byte[children]]
            alive = following != DEAD
            nodes, states = children[alive], following[alive].astype(np.int64)
            found, place = trie.ending_at(nodes)
            tokens.append(found)
            ends.append(states[place])
            if self._seam.follow and (accepting := self._accepting[states]).any():
                crossing.append(self._seam.tokens_after(nodes[accepting]))
        reached = np.concatenate(ends)
        farthest = max((len(self._ending(end)) for end in np.unique(reached).tolist()), default=0)
        beyond = np.concatenate(crossing) if crossing else np.zeros(0, dtype=np.int64)
        return _Transitions(np.concatenate(tokens), reached, beyond, farthest)

    def _prepare(self, states: Ints) -> None:
        for at in np.unique(states).tolist():
            self._row(at)

    def _make_mask(self, transitions: _Transitions, remaining: int | None) -> TokenMask:
        inside = transitions.tokens
        if remaining is not None or not self._tokens.vocabulary.covers_bytes:
            fits = {end: self._fits(end, remaining) for end in np.unique(transitions.ends).tolist()}
            inside = inside[np.array([fits[end] for end in transitions.ends.tolist()], dtype=np.bool_)]
        return mask_of(self._tokens.size, np.concatenate([inside, transitions.crossing]))

    def _fits(self, end: int, remaining: int | None) -> bool:
        text = self._ending(end)
        if self._tokens.vocabulary.covers_bytes and (remaining is None or len(text) <= remaining - 1):
            return True
        ending = self._tokens.shortest(text)
        return ending is not None and (remaining is None or len(ending) <= remaining - 1)


@dataclass(frozen=True)
class _Transitions:
    """The tokens that stay inside, the index of the state each reaches, and the tokens that cross the seam."""

    tokens: Ints
    ends: Ints
    crossing: Ints
    farthest: int  # bytes from the farthest of `ends` to its ending
