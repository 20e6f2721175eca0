"""The machines of choices: of a closed list of spellings, and of several kinds of values (`UnionMachine`).

A state of a list, however long, is a range of the sorted list. Ten thousand options cost one sort: the masks of
prefixes are computed only when they are needed. The remaining options form a tree of their common beginnings, which is
matched level by level against the trie of the vocabulary.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import GuideError, Machine, MachineState, TokenMask
from pastalang.runtime.constraints.masks import join_masks, mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import ROOT, BoundedCache, Ints, Tokens, TokenTrie, ranges

Flags: TypeAlias = NDArray[np.bool_]

_MAX_MASKS = 512
_NEVER = 1 << 40
_NONE = np.zeros(0, dtype=np.int64)
_FEW = 8  # options: up to here each is spelled to find the one with the fewest tokens


class Range(NamedTuple):
    """The options that are still possible, `options[low:high]`. The value so far is their first `depth` bytes."""

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
            raise GuideError("the choice has no option that the vocabulary can spell")
        self.start = Range(0, len(self.options), 0)
        self._list = OptionList(self.options)
        self._masks: BoundedCache[tuple[Range, int | None], TokenMask] = BoundedCache(_MAX_MASKS)
        self._longest = max(map(len, self.options))

    def step(self, state: Range, byte: int) -> Range | None:
        low, high, depth = state
        prefix = self.options[low][:depth]
        first = bisect_left(self.options, prefix + bytes((byte,)), low, high)
        last = high if byte == 255 else bisect_left(self.options, prefix + bytes((byte + 1,)), low, high)
        return Range(first, last, depth + 1) if first < last else None

    def accepts(self, state: Range) -> bool:
        low, _, depth = state
        return len(self.options[low]) == depth

    def can_continue(self, state: Range) -> bool:
        low, high, depth = state
        return high - low > 1 or len(self.options[low]) > depth

    def stop_bytes(self, state: Range) -> int:
        return 0

    def ending(self, state: Range) -> tuple[int, ...] | None:
        """The rest of the option that takes the fewest tokens; of many options, only the shortest are compared."""
        low, high, depth = state
        if high - low > _FEW and self._list.is_weighed:
            return self._list.shortest(self._tokens.trie, state)
        near = np.argsort(self._list.lengths[low:high], kind="stable")[:_FEW] + low
        rest = [self.options[at][depth:] for at in near.tolist()]
        found = [tokens for text in rest if (tokens := self._tokens.shortest(text)) is not None]
        return min(found, key=len, default=None)

    def forced(self, state: Range) -> bytes:
        low, high, depth = state
        first, last = self.options[low], self.options[high - 1]
        return common_prefix(first, last)[depth:]

    def mask(self, state: Range, remaining: int | None) -> TokenMask:
        if remaining is not None and self._longest - state.depth < remaining:
            remaining = None
        return self._masks.cached((state, remaining), lambda: self._make_mask(state, remaining))

    def _make_mask(self, here: Range, remaining: int | None) -> TokenMask:
        """Match the beginnings of the remaining options against the trie of the tokens, level by level."""
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
        inner = at if is_plenty else at[self._fits(nodes, _NEVER - 1 if remaining is None else remaining - 1)]
        whole = at[self._list.ends_at(nodes)]
        found = [*inside, trie.ending_at(inner)[0]]
        if len(whole):
            found.append(self._seam.tokens_after(whole))
        return mask_of(self._tokens.size, np.concatenate(found))

    def _shared_by_all(self, here: Range) -> tuple[bytes, list[Ints]]:
        """The next bytes that all options share without the last, so that no option ends in them; and their tokens."""
        common = self.forced(here)[:-1]
        tokens = [token for end in range(1, len(common) + 1) for token in self._tokens.by_text.get(common[:end], ())]
        return common, [np.array(tokens, dtype=np.int64)]

    def _spelled_out(self, here: Range) -> set[int]:
        """The tokens that are a beginning of one of a few options, or contain its end and agree with what follows."""
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
        """For each node, whether some option below it can be completed with `left` tokens."""
        short = self._list.fewest_bytes(nodes) <= left
        if self._tokens.vocabulary.covers_bytes and short.all():
            return short
        return self._list.fewest_tokens(self._tokens.trie, nodes) <= left

    def options_after(self, state: Range, text: bytes) -> Range | None:
        """The options that are possible after the text of a token; if one ends inside the text, only that option."""
        low, high, depth = state
        begun = self.options[low][:depth] + text
        first = bisect_left(self.options, begun, low, high)
        last = bisect_left(self.options, begun + b"\xff", first, high)  # no text in UTF-8 has this byte
        if first < last:
            return Range(first, last, depth + len(text))
        here = state
        for at, byte in enumerate(text):
            following = self.step(here, byte)
            if following is None:
                low, _, depth = here
                agrees = self.accepts(here) and self._seam.agrees(text[at:])
                return Range(low, low + 1, depth) if agrees else None
            here = following
        return here


S = TypeVar("S", bytes, tuple[int, ...])


def common_prefix(first: S, second: S) -> S:
    end = 0
    while end < min(len(first), len(second)) and first[end] == second[end]:
        end += 1
    return first[:end]


@dataclass(frozen=True, eq=False)
class _Tree:
    """The common beginnings of all options, level by level."""

    heads: Ints  # the first option below each node
    byte: Ints
    is_end: Flags  # whether an option ends at the node
    first: Ints  # the children of node n are first[n] up to first[n + 1]
    levels: list[int]  # the first node of each level, and the number of nodes

    def level(self, depth: int) -> slice:
        return slice(self.levels[depth], self.levels[depth + 1])


class OptionList:
    """Options, sorted and without duplicates, as a tree that is matched against a trie."""

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
        # of the options below a node the shortest comes first
        is_end = lengths[every] == np.repeat(np.arange(len(heads)), np.diff(levels))
        first = np.concatenate([[1], 1 + np.cumsum(np.concatenate(counts))])
        return _Tree(every, np.concatenate(bytes_), is_end, first, levels)

    def followed(self, trie: TokenTrie, at: tuple[int, int, int], begun: int) -> tuple[Ints, Ints]:
        """The nodes of the tree below the range `at` that some token reaches, and the matching nodes of the trie.

        `begun` is the trie node of the range itself; -1 if there is none.
        """
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
        """The number of bytes from every node to the nearest end of an option."""
        tree = self._tree
        found = np.where(tree.is_end, 0, _NEVER)
        for depth in reversed(range(len(tree.levels) - 2)):
            level = tree.level(depth)
            first, last = tree.first[level], tree.first[level.start + 1 : level.stop + 1]
            has = np.flatnonzero(last > first)
            base = tree.levels[depth + 1]
            below = np.minimum.reduceat(found[tree.level(depth + 1)], first[has] - base) + 1
            found[level.start + has] = np.minimum(found[level.start + has], below)
        return found

    # ── numbers of tokens ──────────────────────────────────────────────────────────────────────────────────

    @property
    def is_weighed(self) -> bool:
        return self._weights is not None

    def fewest_tokens(self, trie: TokenTrie, nodes: Ints) -> Ints:
        """The fewest tokens from each node to the end of an option; exact, and slow at the first call."""
        if self._weights is None:
            self._weights = self._weigh(trie)
        return self._weights[nodes]

    def _weigh(self, trie: TokenTrie) -> Ints:
        """Computed from the deepest level up, so that the nodes that tokens reach are known already."""
        tree = self._tree
        weights = np.where(tree.is_end, 0, _NEVER)
        for depth in reversed(range(len(tree.levels) - 1)):
            everywhere = np.arange(tree.levels[depth], tree.levels[depth + 1])
            for nodes, where, start in self._down(trie, everywhere):
                ends = np.flatnonzero(trie.own[where] > 0)
                np.minimum.at(weights, everywhere[start[ends]], weights[nodes[ends]] + 1)
        return weights

    def shortest(self, trie: TokenTrie, at: tuple[int, int, int]) -> tuple[int, ...] | None:
        """The fewest tokens from the range to the end of one of its options."""
        low, _, depth = at
        node = self._node(low, depth)
        left = int(self.fewest_tokens(trie, node)[0])
        if left >= _NEVER:
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

    # ── down the tree ──────────────────────────────────────────────────────────────────────────────────────

    def _node(self, low: int, depth: int) -> Ints:
        """The node of the first `depth` bytes of option `low`."""
        level = self._tree.level(depth)
        found: Ints = level.start + np.searchsorted(self._tree.heads[level], [low], side="right") - 1
        return found

    def _down(self, trie: TokenTrie, nodes: Ints, begun: int = ROOT) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Level by level below these nodes: tree nodes, the matching trie nodes, and the index of the node above."""
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


# ── several kinds of values ──────────────────────────────────────────────────────────────────────────────


LiveArms: TypeAlias = tuple[tuple[int, MachineState], ...]  # the arms that are still possible, with their states


class UnionMachine:
    """See `guide.Machine`."""

    def __init__(self, arms: Sequence[Machine], tokens: Tokens) -> None:
        self._arms = tuple(arms)
        self._tokens = tokens
        self.start = tuple((number, arm.start) for number, arm in enumerate(arms))

    def live(self, state: LiveArms) -> list[tuple[Machine, MachineState]]:
        """The arms that are still possible, with their states."""
        return [(self._arms[number], here) for number, here in state]

    # One arm is left after a byte or two, so that case is a way of its own wherever it saves time.

    def step(self, state: LiveArms, byte: int) -> LiveArms | None:
        if len(state) == 1:
            number, here = state[0]
            following = self._arms[number].step(here, byte)
            return None if following is None else ((number, following),)
        found = tuple(
            (number, following)
            for number, here in state
            if (following := self._arms[number].step(here, byte)) is not None
        )
        return found or None

    def accepts(self, state: LiveArms) -> bool:
        if len(state) == 1:
            return self._arms[state[0][0]].accepts(state[0][1])
        return any(self._arms[number].accepts(here) for number, here in state)

    def can_continue(self, state: LiveArms) -> bool:
        return any(self._arms[number].can_continue(here) for number, here in state)

    def stop_bytes(self, state: LiveArms) -> int:
        if len(state) == 1:
            return self._arms[state[0][0]].stop_bytes(state[0][1])
        return max(self._arms[number].stop_bytes(here) for number, here in state)

    def ending(self, state: LiveArms) -> tuple[int, ...] | None:
        endings = [self._arms[number].ending(here) for number, here in state]
        return min((ending for ending in endings if ending is not None), key=len, default=None)

    def forced(self, state: LiveArms) -> bytes:
        if len(state) == 1:
            number, here = state[0]
            return self._arms[number].forced(here)
        common = self._arms[state[0][0]].forced(state[0][1])
        for number, here in state[1:]:
            common = common_prefix(common, self._arms[number].forced(here))
        return common

    def mask(self, state: LiveArms, remaining: int | None) -> TokenMask:
        if len(state) == 1:
            return self._arms[state[0][0]].mask(state[0][1], remaining)
        masks = [self._arms[number].mask(here, remaining) for number, here in state]
        key = ("union", *map(id, masks))
        joined, _ = self._tokens.cached_recent(key, lambda: (join_masks(self._tokens.size, masks), masks))
        return joined
