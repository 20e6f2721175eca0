"""A text to quote from, spelled as the value will be, and the tokens that copy it from each of its characters."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.token_bytes import ranges
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import ROOT, Ints, TokenTrie

_MAX_SOURCES = 16  # of which the tokens are kept
_NOTHING = -1


@dataclass(frozen=True, eq=False)
class SpelledSource:
    """`cuts[k]` is where character k begins in `spelled`, in bytes; the last one is the end.

    `letters` are the same bytes and one that is none behind them; `which[p]` is the character that begins at byte p.
    """

    spelled: bytes
    cuts: Ints
    letters: NDArray[np.int64]
    is_cut: NDArray[np.bool_]

    @cached_property
    def which(self) -> Ints:
        found: Ints = np.cumsum(self.is_cut)
        found -= 1
        return found

    @property
    def begins(self) -> Ints:
        return self.cuts[:-1]


@lru_cache(maxsize=_MAX_SOURCES)
def spell_source(text: str, *, quoted: bool) -> SpelledSource:
    spelling = {
        character: (json.dumps(character, ensure_ascii=False)[1:-1] if quoted else character).encode()
        for character in set(text)
    }
    parts = [spelling[character] for character in text]
    cuts = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)), out=cuts[1:])
    spelled = b"".join(parts)
    letters = np.append(np.frombuffer(spelled, dtype=np.uint8), _NOTHING).astype(np.int64)
    is_cut = np.zeros(len(spelled) + 1, dtype=np.bool_)
    is_cut[cuts] = True
    return SpelledSource(spelled, cuts, letters, is_cut)


class Matches:
    """`tokens[bounds[k] : bounds[k + 1]]` copy the text from character k to `ends`; likewise `nodes`, below which
    tokens go on that copy it to the end of a character and hold something else behind it, as places in `below`."""

    def __init__(self, source: SpelledSource, trie: TokenTrie) -> None:
        self._source = source
        self._trie = trie
        token, ends, start = _Rows(), _Rows(), _Rows()
        nodes, owner = _Rows(), _Rows()
        for here, place, first in self._levels(source.begins, ROOT):
            found, at = trie.ending_at(here)
            token.add(found)
            ends.add(place[at])
            start.add(first[at])
            inner = np.flatnonzero(source.is_cut[place] & (trie.children[here] > 0))
            nodes.add(here[inner])
            owner.add(first[inner])
        self._tokens, self._ends, self._bounds = _by(start.all(), len(source.begins), token.all(), ends.all())
        every = nodes.all()
        is_met = np.zeros(len(trie.byte), dtype=np.bool_)
        is_met[every] = True
        self.below: Ints = np.flatnonzero(is_met)
        number = np.empty(len(trie.byte), dtype=np.int64)
        number[self.below] = np.arange(len(self.below))
        self._nodes, _, self._node_bounds = _by(owner.all(), len(source.begins), number[every], every)

    def at(self, places: Ints) -> tuple[Ints, Ints, Ints]:
        """The tokens that copy the text from these places, each the beginning of a character, and where to; and of the
        nodes in `below` those that it leads to at the ends of characters."""
        if len(places) == 1:
            return self._at_one(int(self._source.which[places[0]]))
        inside = places[: np.searchsorted(places, len(self._source.spelled))]  # the last may be the end of the text
        which = self._source.which[inside]
        found = ranges(self._bounds[which], self._bounds[which + 1])
        nodes = ranges(self._node_bounds[which], self._node_bounds[which + 1])
        return self._tokens[found], self._ends[found], self._nodes[nodes]

    def _at_one(self, which: int) -> tuple[Ints, Ints, Ints]:
        last = min(which + 1, len(self._bounds) - 1)
        found = slice(self._bounds.item(which), self._bounds.item(last))
        nodes = slice(self._node_bounds.item(which), self._node_bounds.item(last))
        return self._tokens[found], self._ends[found], self._nodes[nodes]

    def follow(self, places: Ints, node: int) -> tuple[Ints, Ints, Ints]:
        """The same from any places, below a node of the trie."""
        token, ends, nodes = _Rows(), _Rows(), _Rows()
        for here, place, _ in self._levels(places, node):
            found, at = self._trie.ending_at(here)
            token.add(found)
            ends.add(place[at])
            nodes.add(here[self._source.is_cut[place]])
        return token.all(), ends.all(), nodes.all()

    def _levels(self, places: Ints, node: int) -> list[tuple[Ints, Ints, Ints]]:
        """Level by level the nodes that copy the text, where each is in it, and which of the places it began at."""
        found = []
        here, first = np.full(len(places), node, dtype=np.int64), np.arange(len(places))
        while len(here):
            byte = self._source.letters[places]
            here = self._trie.child(here, byte)
            alive = np.flatnonzero((here >= 0) & (byte != _NOTHING))
            here, places, first = here[alive], places[alive] + 1, first[alive]
            found.append((here, places, first))
        return found


class _Rows:
    def __init__(self) -> None:
        self._parts: list[Ints] = [np.zeros(0, dtype=np.int64)]

    def add(self, part: Ints) -> None:
        self._parts.append(part)

    def all(self) -> Ints:
        return np.concatenate(self._parts)


def _by(start: Ints, count: int, first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """Both sorted by where they start, and where each start begins among them."""
    order = np.argsort(start, kind="stable")
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(start, minlength=count), out=bounds[1:])
    return first[order], second[order], bounds


def matches_of(source: SpelledSource, tokens: Tokens) -> Matches:
    known: OrderedDict[Hashable, Matches] = tokens.keep("matches", OrderedDict)
    if source not in known:
        known[source] = Matches(source, tokens.trie)
        if len(known) > _MAX_SOURCES:
            known.popitem(last=False)
    known.move_to_end(source)
    return known[source]
