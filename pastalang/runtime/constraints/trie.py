"""A trie of all tokens of a vocabulary, stored in arrays, so that one operation looks up many nodes.

Nodes are numbered level by level. The children of a node are consecutive and sorted by their byte, so the pairs
(parent, byte) ascend with the node number. The tokens below a node are one range of the sorted tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.vocabulary import Vocabulary

Ints = NDArray[np.int64]
ROOT = 0


@dataclass(frozen=True)
class TokenTrie:
    order: Ints  # token ids, sorted by their bytes
    byte: Ints  # of each node; the root's is 0
    first_child: Ints
    children: Ints  # how many
    low: Ints  # the tokens below a node: order[low:high]
    own: Ints  # the tokens that end at it: order[low : low + own]
    high: Ints
    keys: Ints  # parent * 256 + byte of every node but the root

    def child(self, nodes: Ints, byte: int | Ints) -> Ints:
        """The child of each node for one byte, or for a byte each; -1 if it has no such child."""
        wanted = nodes * 256 + byte
        at = np.searchsorted(self.keys, wanted)
        found = np.minimum(at, len(self.keys) - 1)
        return np.where(self.keys[found] == wanted, found + 1, -1)

    def children_by(self, nodes: Ints, bytes_: Ints | int) -> tuple[Ints, Ints]:
        """The children of these nodes for one byte, or for a byte each, and the index of each child's parent."""
        wanted = nodes * 256 + bytes_
        at = np.searchsorted(self.keys, wanted)
        found = np.flatnonzero(self.keys.take(at, mode="clip") == wanted)
        return at.take(found) + 1, found

    def expand(self, nodes: Ints) -> tuple[Ints, Ints]:
        """All children of these nodes, and the index in `nodes` of each child's parent."""
        counts = self.children[nodes]
        parent = np.repeat(np.arange(len(nodes)), counts)
        offset = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.first_child[nodes][parent] + offset, parent

    def ending_at(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The tokens that end at these nodes, and the index in `nodes` of each token's node."""
        counts = self.own[nodes]
        place = np.repeat(np.arange(len(nodes)), counts)
        offset = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.order[self.low[nodes][place] + offset], place

    def below(self, node: int) -> Ints:
        """The tokens that begin with the bytes of this node, including the node's own token."""
        return self.order[self.low[node] : self.high[node]]

    def depth(self, node: int) -> int:
        """The number of bytes from the root to the node."""
        found = 0
        while node != ROOT:
            node, found = int(self.keys[node - 1]) >> 8, found + 1
        return found

    def find(self, text: bytes) -> int:
        """The node of this text; -1 if no token begins with it."""
        node = ROOT
        for byte in text:
            wanted = node << 8 | byte
            at = int(self.keys.searchsorted(wanted))
            if at == len(self.keys) or self.keys.item(at) != wanted:
                return -1
            node = at + 1
        return node


def build_trie(vocabulary: Vocabulary) -> TokenTrie:
    known = sorted((text, id) for id, text in enumerate(vocabulary.spelling) if text)
    order = np.array([id for _, id in known], dtype=np.int64)
    lengths = np.array([len(text) for text, _ in known], dtype=np.int64)
    width = int(lengths.max(initial=0))
    letters = np.zeros((len(known), width), dtype=np.uint8)
    joined = np.frombuffer(b"".join(text for text, _ in known), dtype=np.uint8)
    letters[np.arange(width)[None, :] < lengths[:, None]] = joined
    return _build(order, lengths, letters, _shared(letters, lengths))


def _shared(letters: NDArray[np.uint8], lengths: Ints) -> Ints:
    """The number of leading bytes that each token shares with the token before it."""
    shared = np.zeros(len(lengths), dtype=np.int64)
    if len(lengths) > 1:
        same = letters[1:] == letters[:-1]
        run = np.where(same.all(axis=1), letters.shape[1], same.argmin(axis=1))
        shared[1:] = np.minimum(run, np.minimum(lengths[1:], lengths[:-1]))
    return shared


def _build(order: Ints, lengths: Ints, letters: NDArray[np.uint8], shared: Ints) -> TokenTrie:
    rows = len(order)
    byte, parent, low = [np.zeros(1, np.int64)], [np.full(1, -1)], [np.zeros(1, np.int64)]
    own, high = [np.zeros(1, np.int64)], [np.full(1, rows)]
    above, base = np.zeros(rows, dtype=np.int64), 1
    for depth in range(letters.shape[1]):
        active = lengths > depth
        fresh = active & (shared <= depth)
        fresh[0] = active[0]
        at = base + np.cumsum(fresh) - 1
        heads = np.flatnonzero(fresh)
        index = at[active] - base
        byte.append(letters[heads, depth].astype(np.int64))
        parent.append(above[heads])
        low.append(heads)
        high.append(heads + np.bincount(index, minlength=len(heads)))
        own.append(np.bincount(at[active & (lengths == depth + 1)] - base, minlength=len(heads)))
        above = np.where(active, at, 0)
        base += len(heads)
    bytes_, parents = np.concatenate(byte), np.concatenate(parent)
    children = np.bincount(parents[1:], minlength=base)
    first = 1 + np.cumsum(children) - children
    return TokenTrie(
        order, bytes_, first, children, np.concatenate(low), np.concatenate(own), np.concatenate(high),
        parents[1:] * 256 + bytes_[1:],
    )  # fmt: skip
