"""A sorted list of texts as a tree of their beginnings, led down the trie of a vocabulary in whole levels.

A node is a beginning that some texts share. Nodes are numbered level by level, those of a level in the order of the
list, so the children of a node stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.token_bytes import ranges
from pastalang.runtime.constraints.trie import ROOT, Ints, TokenTrie

Flags: TypeAlias = NDArray[np.bool_]
NEVER = 1 << 40
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Tree:
    """`heads` are the first texts of the nodes, `levels` where each length begins, and the end of all.

    The children of node n are `first[n]` up to `first[n + 1]`.
    """

    heads: Ints
    byte: Ints
    is_end: Flags  # whether a text ends there
    first: Ints
    levels: list[int]

    def level(self, depth: int) -> slice:
        return slice(self.levels[depth], self.levels[depth + 1])


class OptionList:
    """`options` are sorted and differ."""

    def __init__(self, options: Sequence[bytes]) -> None:
        self.lengths: Ints = np.fromiter(map(len, options), dtype=np.int64, count=len(options))
        self._options = options
        self._weights: Ints | None = None

    @cached_property
    def _tree(self) -> _Tree:
        lengths = self.lengths
        starts = np.cumsum(lengths) - lengths
        flat = np.frombuffer(b"".join(self._options) or b"\x00", dtype=np.uint8)
        here, node = np.arange(len(lengths)), np.zeros(len(lengths), dtype=np.int64)
        heads, bytes_, counts = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)], []
        depth = 0
        while len(here := here[lengths[here] > depth]):
            byte, above = flat[starts[here] + depth], node[here]
            fresh = np.ones(len(here), dtype=np.bool_)
            fresh[1:] = (above[1:] != above[:-1]) | (byte[1:] != byte[:-1])
            counts.append(np.bincount(above[fresh], minlength=len(heads[-1])))
            heads.append(here[fresh])
            bytes_.append(byte[fresh].astype(np.int64))
            node[here] = np.cumsum(fresh) - 1
            depth += 1
        counts.append(np.zeros(len(heads[-1]), dtype=np.int64))
        levels = [0, *np.cumsum([len(head) for head in heads]).tolist()]
        every = np.concatenate(heads)
        # the shortest of those that begin alike comes first
        is_end = lengths[every] == np.repeat(np.arange(len(heads)), np.diff(levels))
        first = np.concatenate([[1], 1 + np.cumsum(np.concatenate(counts))])
        return _Tree(every, np.concatenate(bytes_), is_end, first, levels)

    def prepare(self) -> None:
        """Makes the tree, which is otherwise made when it is first walked."""
        assert self._tree

    def followed(self, trie: TokenTrie, at: tuple[int, int, int], begun: int) -> tuple[Ints, Ints]:
        """Below the node that `at` stands for, from a node of the trie on (-1: none): the nodes that some token begins
        like, and the nodes of the trie that they lead to."""
        low, _, depth = at
        found = list(self._down(trie, self._node(low, depth), begun)) if begun >= 0 else []
        if not found:
            return _NONE, _NONE
        return np.concatenate([nodes for nodes, _, _ in found]), np.concatenate([where for _, where, _ in found])

    def ends_at(self, nodes: Ints) -> Flags:
        found: Flags = self._tree.is_end[nodes]
        return found

    def fewest_bytes(self, nodes: Ints) -> Ints:
        return self._fewest[nodes]

    @cached_property
    def _fewest(self) -> Ints:
        """Bytes from every node to the nearest end."""
        tree = self._tree
        found = np.where(tree.is_end, 0, NEVER)
        for depth in reversed(range(len(tree.levels) - 2)):
            level = tree.level(depth)
            first, last = tree.first[level], tree.first[level.start + 1 : level.stop + 1]
            has = np.flatnonzero(last > first)
            base = tree.levels[depth + 1]
            below = np.minimum.reduceat(found[tree.level(depth + 1)], first[has] - base) + 1
            found[level.start + has] = np.minimum(found[level.start + has], below)
        return found

    # ── how many tokens are needed ───────────────────────────────────────────────────────────────────────

    @property
    def is_weighed(self) -> bool:
        return self._weights is not None

    def fewest_tokens(self, trie: TokenTrie, nodes: Ints) -> Ints:
        """To the end of some text below each node; exact, and costly the first time."""
        if self._weights is None:
            self._weights = self._weigh(trie)
        return self._weights[nodes]

    def _weigh(self, trie: TokenTrie) -> Ints:
        """From the deepest level up: what the tokens from each node lead to is known by then."""
        tree = self._tree
        weights = np.where(tree.is_end, 0, NEVER)
        for depth in reversed(range(len(tree.levels) - 1)):
            everywhere = np.arange(tree.levels[depth], tree.levels[depth + 1])
            for nodes, where, start in self._down(trie, everywhere):
                ends = np.flatnonzero(trie.own[where] > 0)
                np.minimum.at(weights, everywhere[start[ends]], weights[nodes[ends]] + 1)
        return weights

    def shortest(self, trie: TokenTrie, at: tuple[int, int, int]) -> tuple[int, ...] | None:
        """The fewest tokens to the end of some text, from a node on."""
        low, _, depth = at
        node = self._node(low, depth)
        left = int(self.fewest_tokens(trie, node)[0])
        if left >= NEVER:
            return None
        tokens: list[int] = []
        while left:
            left -= 1
            for nodes, where, _ in self._down(trie, node):
                good = np.flatnonzero((trie.own[where] > 0) & (self.fewest_tokens(trie, nodes) == left))
                if len(good):
                    tokens.append(int(trie.ending_at(where[good[:1]])[0][0]))
                    node = nodes[good[:1]]
                    break
        return tuple(tokens)

    # ── down the tree ────────────────────────────────────────────────────────────────────────────────────

    def _node(self, low: int, depth: int) -> Ints:
        """The beginning of so many bytes that the text has."""
        level = self._tree.level(depth)
        found: Ints = level.start + np.searchsorted(self._tree.heads[level], [low], side="right") - 1
        return found

    def _down(self, trie: TokenTrie, nodes: Ints, begun: int = ROOT) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Below these nodes: level by level the nodes, where in the trie, and the place of the one they are below."""
        tree = self._tree
        start, where = np.arange(len(nodes)), np.full(len(nodes), begun, dtype=np.int64)
        while len(nodes):
            first, last = tree.first.take(nodes), tree.first.take(nodes + 1)
            counts = last - first
            nodes = ranges(first, last)
            below, at = trie.children_by(np.repeat(where, counts), tree.byte.take(nodes))
            nodes, start, where = nodes.take(at), np.repeat(start, counts).take(at), below
            if len(nodes):
                yield nodes, where, start
                longer = np.flatnonzero(trie.children.take(where))
                nodes, start, where = nodes.take(longer), start.take(longer), where.take(longer)
