"""A vocabulary with the lookups that guides need: its trie, token ids by text, and the fewest tokens for a text.

The trie is stored in arrays, so that one operation looks up many nodes. Nodes are numbered level by level. The children
of a node are consecutive and sorted by their byte, so the pairs (parent, byte) ascend with the node number. The tokens
below a node are one range of the sorted tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.vocabulary import Vocabulary

# ── caches ───────────────────────────────────────────────────────────────────────────────────────────────


K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict of at most `most` entries. One entry too many clears all others: it has no record of which are used."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._most and key not in self:
            self.clear()
        super().__setitem__(key, value)

    def cached(self, key: K, make: Callable[[], V]) -> V:
        """The value of the key, computed by `make` if it is not there."""
        if key not in self:
            self[key] = make()
        return self[key]


class LruCache(OrderedDict[K, V]):
    """A dict of at most `most` entries, for few large values. The least recently used is dropped first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def cached(self, key: K, make: Callable[[], V]) -> V:
        """The value of the key, computed by `make` if it is not there."""
        if key not in self:
            self[key] = make()
            if len(self) > self._most:
                self.popitem(last=False)
        self.move_to_end(key)
        return self[key]


# ── the trie ─────────────────────────────────────────────────────────────────────────────────────────────


Ints = NDArray[np.int64]
ROOT = 0
_MANY = 5_000  # nodes: from here on it is quicker to look at all nodes of a byte


def ranges(starts: Ints, ends: Ints) -> Ints:
    """The concatenation of `arange(start, end)` for all pairs."""
    counts = ends - starts
    beyond = np.cumsum(counts)
    found: Ints = np.repeat(starts - beyond + counts, counts)
    found += np.arange(len(found))
    return found


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
    levels: tuple[int, ...]  # the first node of each level, and the number of nodes

    def __len__(self) -> int:
        return len(self.byte)

    @cached_property
    def parent(self) -> Ints:
        """The parent of each node; the root is its own."""
        return np.concatenate([np.zeros(1, dtype=np.int64), self.keys >> 8])

    @cached_property
    def ends(self) -> Ints:
        """The node where each token of `order` ends."""
        nodes = np.flatnonzero(self.own)
        found = np.zeros(len(self.order), dtype=np.int64)
        found[ranges(self.low[nodes], self.low[nodes] + self.own[nodes])] = np.repeat(nodes, self.own[nodes])
        return found

    def nodes_of(self, byte: int) -> Ints:
        """The nodes whose last byte this is."""
        if byte not in self._by_byte:
            self._by_byte[byte] = np.flatnonzero(self.byte[1:] == byte) + 1
        return self._by_byte[byte]

    @cached_property
    def _by_byte(self) -> dict[int, Ints]:
        return {}

    def children_by(self, nodes: Ints, bytes_: Ints | int) -> tuple[Ints, Ints]:
        """The children of these nodes for one byte, or for a byte each, and the index of each child's parent."""
        if isinstance(bytes_, int) and len(nodes) > _MANY:
            return self._children_of_many(nodes, bytes_)
        wanted = nodes * 256 + bytes_
        at = np.searchsorted(self.keys, wanted)
        found = np.flatnonzero(self.keys.take(at, mode="clip") == wanted)
        return at.take(found) + 1, found

    def _children_of_many(self, nodes: Ints, byte: int) -> tuple[Ints, Ints]:
        place = np.full(len(self), -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        children = self.nodes_of(byte)
        at = place[self.parent[children]]
        found = np.flatnonzero(at >= 0)
        return children[found], at[found]

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
    above, base, levels = np.zeros(rows, dtype=np.int64), 1, [0, 1]
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
        levels.append(base)
    bytes_, parents = np.concatenate(byte), np.concatenate(parent)
    children = np.bincount(parents[1:], minlength=base)
    first = 1 + np.cumsum(children) - children
    return TokenTrie(
        order, bytes_, first, children, np.concatenate(low), np.concatenate(own), np.concatenate(high),
        parents[1:] * 256 + bytes_[1:], tuple(levels),
    )  # fmt: skip


# ── the vocabulary ───────────────────────────────────────────────────────────────────────────────────────


T = TypeVar("T")

MAX_RECENT = 2_000  # results that guides share: masks of a 128k vocabulary take 16 kB each
_MAX_KNOWN, _MAX_KNOWN_BYTES = 4_096, 128  # texts whose tokens are remembered, and how long they are


@dataclass(frozen=True)
class Tokens:
    """One per vocabulary, shared by all its guides. `kept` and `recent` cache what several guides need."""

    vocabulary: Vocabulary
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)
    recent: LruCache[Any, Any] = field(default_factory=partial(LruCache, MAX_RECENT), repr=False)

    @property
    def size(self) -> int:
        return self.vocabulary.size

    @cached_property
    def trie(self) -> TokenTrie:
        return build_trie(self.vocabulary)

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The lowest token id for each text."""
        spelled = enumerate(self.vocabulary.spelling)
        return {text: id for id, text in reversed(list(spelled)) if text}

    @cached_property
    def by_text(self) -> dict[bytes, tuple[int, ...]]:
        """All tokens of each text: in some vocabularies a letter is both a token and a byte token."""
        found: dict[bytes, tuple[int, ...]] = {}
        for id, text in enumerate(self.vocabulary.spelling):
            if text:
                found[text] = (*found.get(text, ()), id)
        return found

    @staticmethod
    def node(node: int) -> Ints:
        return np.array([node], dtype=np.int64)

    @cached_property
    def longest(self) -> int:
        return max((len(text) for text in self.ids), default=0)

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self.ids)

    def begins_some(self, text: bytes) -> bool:
        """Whether a longer token begins with the text."""
        at = bisect_right(self._sorted, text)
        return at < len(self._sorted) and self._sorted[at].startswith(text)

    def contains(self, text: bytes) -> bool:
        """Whether a token contains the text. Texts with a byte that is never in UTF-8 may be taken for contained."""
        return text in self._joined

    @cached_property
    def _joined(self) -> bytes:
        return b"\xff".join(self.ids)

    def text(self, token: int) -> bytes | None:
        return self.vocabulary.spelling[token]

    def shortest(self, text: bytes) -> tuple[int, ...] | None:
        """The fewest tokens that spell the text; None if no tokens do."""
        if len(text) > _MAX_KNOWN_BYTES:
            return _shortest(text, self.ids, self.longest)
        return self._spelled.cached(text, lambda: _shortest(text, self.ids, self.longest))

    @cached_property
    def _spelled(self) -> BoundedCache[bytes, tuple[int, ...] | None]:
        """The tokens of short texts: guides look up the same keys and endings many times."""
        return BoundedCache(_MAX_KNOWN)

    def canonical(self, text: bytes) -> tuple[int, ...] | None:
        """The tokenizer's own tokens for the text, or the fewest tokens if those contain control tokens."""
        encode = self.vocabulary.encode
        if encode is not None:
            try:
                found = tuple(encode(text.decode("utf-8")))
            except UnicodeDecodeError:
                return self.shortest(text)
            spelled = [self.vocabulary.spelling[token] for token in found]
            if b"".join(part or b"" for part in spelled) == text and None not in spelled:
                return found
        return self.shortest(text)

    def cached_recent(self, key: object, make: Callable[[], T]) -> T:
        """The result of `make`, cached by its key as long as it is used now and then."""
        found: T = self.recent.cached(key, make)
        return found

    def cached(self, key: object, make: Callable[[], T]) -> T:
        """The result of `make`, cached by its key forever."""
        if key not in self.kept:
            self.kept[key] = make()
        found: T = self.kept[key]
        return found


def _shortest(text: bytes, ids: dict[bytes, int], longest: int) -> tuple[int, ...] | None:
    """See `Tokens.shortest`: the best choice from each position, found from the end of the text."""
    best: list[tuple[int, int, int] | None] = [None] * len(text) + [(0, 0, 0)]  # tokens left, this one, its length
    for start in range(len(text) - 1, -1, -1):
        for end in range(min(len(text), start + longest), start, -1):
            rest = best[end]
            if rest is None or ((mine := best[start]) is not None and mine[0] <= rest[0] + 1):
                continue
            if (token := ids.get(text[start:end])) is not None:
                best[start] = (rest[0] + 1, token, end - start)
    tokens, at = [], 0
    while at < len(text):
        step = best[at]
        if step is None:
            return None
        tokens.append(step[1])
        at += step[2]
    return tuple(tokens)
