"""A closed list of spellings, however long: a state is a range of the sorted list.

Ten thousand options cost a sort. Nothing is made for all prefixes; the tokens of a state are looked up from the texts
that are left. Their common beginnings are a tree, which is led down the trie of the vocabulary level by level.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.guide import GuideError, MachineState, TokenMask
from pastalang.runtime.constraints.masks import mask_of, mask_of_many
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.token_bytes import ranges
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import ROOT, Ints, TokenTrie

_MAX_MASKS = 512
_FEW = 8  # options that are all spelled out to find the one with the fewest tokens


class Range(NamedTuple):
    """`options[low:high]` begin with the same `depth` bytes, which are written."""

    low: int
    high: int
    depth: int


class ChoiceMachine:
    """See `guide.Machine`."""

    def __init__(self, options: Iterable[bytes], seam: Seam) -> None:
        self.options = sorted(set(options))
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        if not seam.tokens.vocabulary.covers_bytes:
            self.options = [option for option in self.options if self._tokens.shortest(option) is not None]
        if not self.options:
            raise GuideError("there is nothing to choose from")
        self.start: MachineState = Range(0, len(self.options), 0)
        self._list = OptionList(self.options)
        self._masks: BoundedCache[tuple[Range, int | None], TokenMask] = BoundedCache(_MAX_MASKS)
        self._longest = max(map(len, self.options))

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        low, high, depth = _range(state)
        prefix = self.options[low][:depth]
        first = bisect_left(self.options, prefix + bytes((byte,)), low, high)
        last = high if byte == 255 else bisect_left(self.options, prefix + bytes((byte + 1,)), low, high)
        return Range(first, last, depth + 1) if first < last else None

    def accepts(self, state: MachineState) -> bool:
        low, _, depth = _range(state)
        return len(self.options[low]) == depth

    def can_continue(self, state: MachineState) -> bool:
        low, high, depth = _range(state)
        return high - low > 1 or len(self.options[low]) > depth

    def trimmed(self, state: MachineState) -> int:
        return 0

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        """The option that is left with the fewest tokens; where many are left, the best of the shortest."""
        here = _range(state)
        low, high, depth = here
        if high - low > _FEW and self._list.is_weighed:
            return self._list.shortest(self._tokens.trie, here)
        near = np.argsort(self._list.lengths[low:high], kind="stable")[:_FEW] + low
        rest = [self.options[at][depth:] for at in near.tolist()]
        found = [tokens for text in rest if (tokens := self._tokens.shortest(text)) is not None]
        return min(found, key=len, default=None)

    def forced(self, state: MachineState) -> bytes:
        low, high, depth = _range(state)
        first, last = self.options[low], self.options[high - 1]
        end = depth
        while end < min(len(first), len(last)) and first[end] == last[end]:
            end += 1
        return first[depth:end]

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        here = _range(state)
        if remaining is not None and self._longest - here.depth < remaining:
            remaining = None
        key = (here, remaining)
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = self._make_mask(here, remaining)
        return found

    def warm(self) -> None:
        if len(self.options) > _FEW:
            self._list.prepare()
        self.mask(self.start, None)

    def _make_mask(self, here: Range, remaining: int | None) -> TokenMask:
        """Leads the beginnings of what is left down the trie of the tokens, level by level."""
        covers = self._tokens.vocabulary.covers_bytes
        if remaining is None and covers and here.high - here.low <= _FEW:
            return mask_of(self._tokens.size, sorted(self._spelled_out(here)))
        if remaining is None and covers:
            common, inside = self._shared_by_all(here)
        else:
            common, inside = b"", []
        trie, start = self._tokens.trie, Range(here.low, here.high, here.depth + len(common))
        nodes, at = self._list.followed(trie, start, trie.find(common))
        is_plenty = remaining is None and covers
        inner = at if is_plenty else at[self._fits(nodes, NEVER - 1 if remaining is None else remaining - 1)]
        whole = at[self._list.ends_at(nodes)]
        found = [*inside, trie.ending_at(inner)[0]]
        if len(whole):
            found.append(self._seam.tokens_after(whole))
        return mask_of_many(self._tokens.size, np.concatenate(found))

    def _shared_by_all(self, here: Range) -> tuple[bytes, list[Ints]]:
        """What all options go on with, but for its last byte, so that none ends in it; and the tokens within it."""
        common = self.forced(here)[:-1]
        tokens = [token for end in range(1, len(common) + 1) for token in self._tokens.by_text.get(common[:end], ())]
        return common, [np.array(tokens, dtype=np.int64)]

    def _spelled_out(self, here: Range) -> set[int]:
        """All tokens that one of a few options begins with, or ends in."""
        found: set[int] = set()
        for option in self.options[here.low : here.high]:
            rest = option[here.depth :]
            for length in range(1, min(len(rest), self._tokens.longest) + 1):
                found.update(self._tokens.by_text.get(rest[:length], ()))
            if rest and self._seam.follow and self._tokens.begins_some(rest):
                node = self._tokens.trie.find(rest)
                if node >= 0:
                    found.update(self._seam.tokens_after(self._tokens.node(node)).tolist())
        return found

    def _fits(self, nodes: Ints, left: int) -> Flags:
        """Whether some option below each of these beginnings can be completed with so many tokens."""
        short = self._list.fewest_bytes(nodes) <= left
        if self._tokens.vocabulary.covers_bytes and short.all():
            return short
        return self._list.fewest_tokens(self._tokens.trie, nodes) <= left

    def options_after(self, state: MachineState, token: int) -> Range | None:
        """The options that are left when this token is taken; of those that end inside it, the range of the one."""
        text = self._tokens.text(token)
        return None if text is None else self.options_after_text(state, text)

    def options_after_text(self, state: MachineState, text: bytes) -> Range | None:
        """As `options_after`, for what of a token belongs to the value."""
        here: MachineState = state
        for at, byte in enumerate(text):
            following = self.step(here, byte)
            if following is None:
                low, _, depth = _range(here)
                agrees = self.accepts(here) and self._seam.agrees(text[at:])
                return Range(low, low + 1, depth) if agrees else None
            here = following
        return _range(here)


def _range(state: MachineState) -> Range:
    assert isinstance(state, Range)
    return state


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
