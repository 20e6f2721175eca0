"""A sorted list of texts as a tree of their beginnings, led down the trie of a vocabulary in whole levels.

A node is a beginning that some texts share; the nodes of a level have one length and stand in the order of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.decode.rows import ranges
from pastalang.runtime.decode.trie import ROOT, Ints, TokenTrie

Flags: TypeAlias = NDArray[np.bool_]
NEVER = 1 << 40


@dataclass(frozen=True, eq=False)
class Level:
    """`heads` are the first texts of its nodes; `first` and `last` their children in the level below."""

    heads: Ints
    byte: Ints
    is_end: Flags  # whether a text ends there
    fewest: Ints  # bytes to the nearest end
    first: Ints
    last: Ints


class OptionList:
    """`options` are sorted and differ."""

    def __init__(self, options: Sequence[bytes]) -> None:
        self.lengths: Ints = np.fromiter(map(len, options), dtype=np.int64, count=len(options))
        self._options = options
        self._weights: list[Ints] | None = None

    @cached_property
    def _levels(self) -> list[Level]:
        """Level d holds the beginnings of d bytes; level 0 is the empty one."""
        count, lengths = len(self._options), self.lengths
        starts = np.cumsum(lengths) - lengths
        flat = np.frombuffer(b"".join(self._options) or b"\x00", dtype=np.uint8).astype(np.int64)
        here, node = np.arange(count), np.zeros(count, dtype=np.int64)
        heads, bytes_ = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
        ends = [np.array([bool(lengths[0] == 0)])]
        depth = 0
        while len(here := here[lengths[here] > depth]):
            byte, above = flat[starts[here] + depth], node[here]
            fresh = np.ones(len(here), dtype=np.bool_)
            fresh[1:] = (above[1:] != above[:-1]) | (byte[1:] != byte[:-1])
            depth += 1
            heads.append(here[fresh])
            bytes_.append(byte[fresh])
            ends.append(lengths[here[fresh]] == depth)  # the shortest of those that begin alike comes first
            node[here] = np.cumsum(fresh) - 1
        return self._joined(heads, bytes_, ends)

    def _joined(self, heads: list[Ints], bytes_: list[Ints], ends: list[Flags]) -> list[Level]:
        """Looks for the children of every node, from the deepest level up."""
        count = len(self._options)
        levels: list[Level] = []
        below, nearest = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for head, byte, is_end in zip(reversed(heads), reversed(bytes_), reversed(ends), strict=True):
            first = np.searchsorted(below, head)
            last = np.searchsorted(below, np.append(head[1:], count))
            fewest = np.full(len(head), NEVER, dtype=np.int64)
            has = np.flatnonzero(last > first)
            if len(has):
                fewest[has] = np.minimum.reduceat(nearest, first[has]) + 1
            fewest[is_end] = 0
            levels.append(Level(head, byte, is_end, fewest, first, last))
            below, nearest = head, fewest
        return levels[::-1]

    def prepare(self) -> None:
        """Makes the tree, which is otherwise made when it is first walked."""
        assert self._levels

    def followed(self, trie: TokenTrie, at: tuple[int, int, int], begun: int) -> Iterator[tuple[int, Ints, Ints]]:
        """Below the node that `at` stands for, from a node of the trie on (-1: none): level by level the nodes that
        some token begins like, and the nodes of the trie that they lead to."""
        low, _, depth = at
        node = self._node(low, depth) if begun >= 0 else np.zeros(0, dtype=np.int64)
        for below, _, nodes, where in self._down(trie, depth, node, begun):
            yield below, nodes, where

    def ends_at(self, depth: int, nodes: Ints) -> Flags:
        found: Flags = self._levels[depth].is_end[nodes]
        return found

    def fewest_bytes(self, depth: int, nodes: Ints) -> Ints:
        return self._levels[depth].fewest[nodes]

    # ── how many tokens are needed ───────────────────────────────────────────────────────────────────────

    @property
    def is_weighed(self) -> bool:
        return self._weights is not None

    def fewest_tokens(self, trie: TokenTrie, depth: int, nodes: Ints) -> Ints:
        """To the end of some text below each node; exact, and costly the first time."""
        if self._weights is None:
            self._weights = self._weigh(trie)
        return self._weights[depth][nodes]

    def _weigh(self, trie: TokenTrie) -> list[Ints]:
        """From the deepest level up: what the tokens from each node lead to is known by then."""
        weights: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(self._levels)
        for depth in reversed(range(len(self._levels))):
            level = self._levels[depth]
            found = np.where(level.is_end, 0, NEVER)
            everywhere = np.arange(len(level.heads))
            for below, start, nodes, where in self._down(trie, depth, everywhere):
                ends = np.flatnonzero(trie.own[where] > 0)
                np.minimum.at(found, start[ends], weights[below][nodes[ends]] + 1)
            weights[depth] = found
        return weights

    def shortest(self, trie: TokenTrie, at: tuple[int, int, int]) -> tuple[int, ...] | None:
        """The fewest tokens to the end of some text, from a node on."""
        low, _, depth = at
        node = self._node(low, depth)
        left = int(self.fewest_tokens(trie, depth, node)[0])
        if left >= NEVER:
            return None
        tokens: list[int] = []
        while left:
            left -= 1
            for below, _, nodes, where in self._down(trie, depth, node):
                good = np.flatnonzero((trie.own[where] > 0) & (self.fewest_tokens(trie, below, nodes) == left))
                if len(good):
                    tokens.append(int(trie.ending_at(where[good[:1]])[0][0]))
                    depth, node = below, nodes[good[:1]]
                    break
        return tuple(tokens)

    # ── down the tree ────────────────────────────────────────────────────────────────────────────────────

    def _node(self, low: int, depth: int) -> Ints:
        """The beginning of so many bytes that the text has."""
        return np.searchsorted(self._levels[depth].heads, [low], side="right") - 1

    def _down(
        self, trie: TokenTrie, depth: int, nodes: Ints, begun: int = ROOT
    ) -> Iterator[tuple[int, Ints, Ints, Ints]]:
        """Below these nodes: level by level the place of the one they are below, the nodes, and where in the trie."""
        start, where = np.arange(len(nodes)), np.full(len(nodes), begun, dtype=np.int64)
        while len(nodes) and depth + 1 < len(self._levels):
            level = self._levels[depth]
            first, last = level.first[nodes], level.last[nodes]
            counts = last - first
            nodes, start, where = ranges(first, last), np.repeat(start, counts), np.repeat(where, counts)
            depth += 1
            where = trie.child(where, self._levels[depth].byte[nodes])
            alive = np.flatnonzero(where >= 0)
            nodes, start, where = nodes[alive], start[alive], where[alive]
            if len(nodes):
                yield depth, start, nodes, where
