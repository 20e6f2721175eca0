"""The machine of exact quotations from a source text: a span is identified by its first occurrence and its length.

The source is spelled as the value will be (with JSON escapes between quotes). A span begins and ends where a quotation
may: at the borders of words, say. The tokens that copy the source from each of its characters are computed once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pastalang.program.types import QuoteUnit
from pastalang.runtime.constraints.guide import GuideError, MachineState, TokenMask
from pastalang.runtime.constraints.masks import mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import ROOT, BoundedCache, Ints, LruCache, Tokens, TokenTrie, ranges
from pastalang.values.quotes import BORDER, places_of

_MAX_MASKS = 256
_MAX_PLACES = 2_000  # spans whose positions are cached
_FEW_PLACES = 8  # whose distances to an end are compared in tokens
_LONGEST_CHARACTER = 14  # bytes, with a quote: a pair of surrogates is written as two escapes
_FEW_NODES = 16  # nodes: for so few, looking up duplicates is quicker than removing them
_NEVER = 10**9 + 1
_NO_PLACES = np.zeros(0, dtype=np.int64)
_OPEN, _CLOSED = "open", "closed"
_QUOTE = 0x22
NOTHING = -1  # marks the end of a source, and the borders in it, among its bytes
MAX_SOURCES = 16  # sources that are cached
_BORDER_BYTE = 0xFF  # no byte of UTF-8


# ── the source ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SpelledSource:
    """A source as the value spells it. Character k begins at byte `cuts[k]` of `spelled`; the last cut is the end.

    A span begins at a byte of `begins` and ends at one of `ends`. `letters` are these bytes, with markers for borders,
    for white space before them, and for the end. `which[p]` is the character that begins at byte p.
    """

    spelled: bytes
    cuts: Ints
    begins: Ints
    ends: Ints
    letters: NDArray[np.int64]
    is_cut: NDArray[np.bool_]
    is_end: NDArray[np.bool_]

    @cached_property
    def which(self) -> Ints:
        found: Ints = np.cumsum(self.is_cut)
        found -= 1
        return found

    @cached_property
    def missing(self) -> Ints:
        """The bytes from every place to the next end; none follows the last."""
        places = np.arange(len(self.spelled) + 1)
        found: Ints = self.ends[np.minimum(np.searchsorted(self.ends, places), len(self.ends) - 1)] - places
        return found

    @cached_property
    def longest(self) -> int:
        """The most bytes from any place to the next end."""
        return int(np.diff(self.ends, prepend=0).max(initial=0))


@lru_cache(maxsize=MAX_SOURCES)
def spell_source(text: str, at: QuoteUnit, *, quoted: bool) -> SpelledSource:
    """What follows the last end cannot be quoted and is left out."""
    places = places_of(text, at)
    text = text[: places.ends[-1]] if places.ends else ""
    spelling = {
        character: (json.dumps(character, ensure_ascii=False)[1:-1] if quoted else character).encode()
        for character in set(text) - {BORDER}
    }
    spelling[BORDER] = bytes([_BORDER_BYTE])
    parts = [spelling[character] for character in text]
    cuts = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)), out=cuts[1:])
    spelled = b"".join(parts)
    letters = np.append(np.frombuffer(spelled, dtype=np.uint8), NOTHING).astype(np.int64)
    begins, ends = cuts[list(places.begins)], cuts[list(places.ends)]
    for border in np.flatnonzero(letters == _BORDER_BYTE).tolist():
        letters[int(ends[: np.searchsorted(ends, border, side="right")].max(initial=0)) : border + 1] = NOTHING
    is_cut, is_end = np.zeros((2, len(spelled) + 1), dtype=np.bool_)
    is_cut[cuts] = True
    is_end[ends] = True
    return SpelledSource(spelled, cuts, begins, ends, letters, is_cut, is_end)


# ── the machine ────────────────────────────────────────────────────────────────────────────────────────────


class Span(NamedTuple):
    """`length` bytes of the spelled source from `first`, their first occurrence."""

    first: int
    length: int


_BEGIN = Span(0, 0)


class VerbatimMachine:
    """See `guide.Machine`. Occurrences begin where a quotation may; a span may end if one of them ends so."""

    def __init__(self, source: SpelledSource, seam: Seam, *, quoted: bool) -> None:
        if not source.spelled:
            raise GuideError("the text to quote from is empty, or white space only")
        self._source = source
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._quoted = quoted
        self._matches = matches_of(source, seam.tokens)
        self.start: MachineState = _OPEN if quoted else _BEGIN
        self._places: BoundedCache[Span, Ints] = BoundedCache(_MAX_PLACES)
        self._masks: dict[tuple[MachineState, int | None], TokenMask] = {}
        self._costs: dict[bytes, int] = {}
        self._most_cost = max(_LONGEST_CHARACTER, source.longest) + 1  # tokens to an end, from any place

    # A state is "open", a span, or "closed".

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        if state == _OPEN:
            return _BEGIN if byte == _QUOTE else None
        if not isinstance(state, Span):
            return None
        following = self._longer(state, self._places_of(state), byte)
        if following is not None:
            return following
        return _CLOSED if self._quoted and byte == _QUOTE and self._may_end(state) else None

    def accepts(self, state: MachineState) -> bool:
        return state == _CLOSED if self._quoted else self._may_end(state)

    def can_continue(self, state: MachineState) -> bool:
        if self._quoted:
            return state != _CLOSED
        return self._has_followers(state)

    def stop_bytes(self, state: MachineState) -> int:
        return 0

    def forced(self, state: MachineState) -> bytes:
        if state == _OPEN:
            return b'"'
        if self._quoted and self._may_end(state) and not self._has_followers(state):
            return b'"'
        return b""

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        if state == _CLOSED:
            return ()
        span = state if isinstance(state, Span) else _BEGIN
        text = (b'"' if state == _OPEN else b"") + self._nearest(span)
        return self._tokens.shortest(text + (b'"' if self._quoted else b""))

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        key = (state, None if remaining is None or remaining > self._most_cost + 1 else remaining)
        found = self._masks.get(key)
        if found is None:
            if len(self._masks) >= _MAX_MASKS:
                self._masks = {key: mask for key, mask in self._masks.items() if key in self._first}
            found = self._masks[key] = self._make_mask(*key)
        return found

    @property
    def _first(self) -> tuple[tuple[MachineState, None], ...]:
        """The cache keys of the first masks, which every value needs."""
        return (self.start, None), (_BEGIN, None)

    # ── positions in the source ────────────────────────────────────────────────────────────────────────────

    def _places_of(self, span: Span) -> Ints:
        """The positions after every occurrence of the span, ascending."""
        found = self._places.get(span)
        if found is None:
            here, found = _BEGIN, self._source.begins
            for byte in self._source.spelled[span.first : span.first + span.length]:
                longer = self._longer(here, found, byte)
                assert longer is not None, "a span that does not occur in its source"
                here, found = longer, self._places[longer]
        return found

    def _longer(self, span: Span, places: Ints, byte: int) -> Span | None:
        if len(places) == 1:  # as nearly always after a few bytes
            following = places + 1 if self._source.letters.item(places.item(0)) == byte else _NO_PLACES
        else:
            following = places[self._source.letters[places] == byte] + 1
        if not len(following):
            return None
        longer = Span(int(following[0]) - span.length - 1, span.length + 1)
        self._places[longer] = following
        return longer

    def _may_end(self, state: MachineState) -> bool:
        if not isinstance(state, Span) or not state.length:
            return False
        places = self._places_of(state)
        if len(places) == 1:
            return self._source.is_end.item(places.item(0))
        return bool(self._source.is_end[places].any())

    def _has_followers(self, state: MachineState) -> bool:
        return isinstance(state, Span) and bool(np.any(self._source.letters[self._places_of(state)] != NOTHING))

    def _nearest(self, span: Span) -> bytes:
        """The text to an end that takes the fewest tokens, or one of the nearest if there are many."""
        source, places = self._source, self._places_of(span)
        ends = source.ends[np.searchsorted(source.ends, places, side="left" if span.length else "right")]
        nearest = np.argsort(ends - places, kind="stable")[:_FEW_PLACES]
        return min((source.spelled[int(places[at]) : int(ends[at])] for at in nearest), key=self._cost)

    # ── tokens ─────────────────────────────────────────────────────────────────────────────────────────────

    def _make_mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        size = self._tokens.size
        if state == _OPEN:
            return self._after_quote(remaining)
        if not isinstance(state, Span):
            return mask_of(size, ())
        places = self._places_of(state)
        if self._source.is_cut[places[0]]:
            tokens, ends, below = self._matches.at(places)
            closers = self._closers.of(below)
        else:
            tokens, ends, nodes = self._matches.follow(places, ROOT)
            closers = self._find_closers(np.unique(nodes))
        parts = [self._fitting(tokens, ends, remaining), closers]
        if self._may_end(state):
            parts.append(self._root_closers)
        return mask_of(size, np.concatenate(parts))

    def _after_quote(self, remaining: int | None) -> TokenMask:
        """The mask before the opening quote: tokens that begin with it."""
        trie = self._tokens.trie
        node = trie.find(b'"')
        if node < 0:
            return mask_of(self._tokens.size, ())
        tokens, ends, nodes = self._matches.follow(self._source.begins, node)
        parts = [self._fitting(tokens, ends, remaining), self._find_closers(np.unique(nodes))]
        if remaining is None or len(self.ending(_BEGIN) or ()) <= remaining - 1:
            parts.append(trie.ending_at(self._tokens.node(node))[0])
        return mask_of(self._tokens.size, np.concatenate(parts))

    def _fitting(self, tokens: Ints, ends: Ints, remaining: int | None) -> Ints:
        if remaining is None and self._tokens.vocabulary.covers_bytes:
            return tokens
        most = _NEVER - 1 if remaining is None else remaining - 1
        source = self._source
        if self._tokens.vocabulary.covers_bytes and source.missing[ends].max(initial=0) + self._quoted <= most:
            return tokens
        which = np.unique(ends)
        missing = source.missing[which]
        fits = (missing + self._quoted <= most) & self._tokens.vocabulary.covers_bytes  # at worst, a token per byte
        for at in np.flatnonzero(~fits).tolist():
            place, size = which.item(at), missing.item(at)
            fits[at] = size <= most * self._tokens.longest and self._cost(source.spelled[place : place + size]) <= most
        found: Ints = tokens[fits[np.searchsorted(which, ends)]]
        return found

    def _cost(self, rest: bytes) -> int:
        """The number of tokens to the end of the value, where `rest` is missing of the last word or character."""
        if rest not in self._costs:
            tokens = self._tokens.shortest(rest + (b'"' if self._quoted else b""))
            self._costs[rest] = _NEVER if tokens is None else len(tokens)
        return self._costs[rest]

    @cached_property
    def _closers(self) -> _Closers:
        """The tokens in which a span ends, by the node at its end."""
        return _Closers(*self._closing(self._matches.below), len(self._matches.below))

    @cached_property
    def _root_closers(self) -> Ints:
        return self._find_closers(self._tokens.node(ROOT))

    def _find_closers(self, here: Ints) -> Ints:
        return self._closing(here)[0]

    def _closing(self, here: Ints) -> tuple[Ints, Ints]:
        """The tokens in which a span ends at one of these nodes, and the index of each token's node."""
        trie = self._tokens.trie
        if not self._quoted:
            inner = np.flatnonzero(here != ROOT)
            tokens, at = self._seam.tokens_after_each(here[inner])
            return tokens, inner[at]
        shut, owner = trie.children_by(here, _QUOTE)
        tokens, at = trie.ending_at(shut)
        more, more_at = self._seam.tokens_after_each(shut)
        return np.concatenate([tokens, more]), owner[np.concatenate([at, more_at])]


class _Closers:
    """Tokens by the index of a node; most nodes have none."""

    def __init__(self, tokens: Ints, places: Ints, count: int) -> None:
        self._tokens = tokens[np.argsort(places, kind="stable")]
        self._counts = np.bincount(places, minlength=count)
        self._bounds = np.concatenate([[0], np.cumsum(self._counts)])

    def of(self, places: Ints) -> Ints:
        """The tokens of these nodes, with duplicates if there are few nodes."""
        places = places[self._counts[places] > 0]
        if len(places) > _FEW_NODES:
            places = np.unique(places)
        return self._tokens[ranges(self._bounds[places], self._bounds[places + 1])]


class Matches:
    """The tokens that copy the source, for each of its characters.

    `_tokens[_bounds[k] : _bounds[k + 1]]` copy it from character k to the positions `_ends`. `_nodes` are trie nodes
    that copy it to where a span may end and have longer tokens below, as indexes into `below`.
    """

    def __init__(self, source: SpelledSource, trie: TokenTrie) -> None:
        self._source = source
        self._trie = trie
        token, ends, start = _Rows(), _Rows(), _Rows()
        nodes, owner = _Rows(), _Rows()
        for here, place, first in self._levels(source.cuts[:-1], ROOT):
            found, at = trie.ending_at(here)
            token.add(found)
            ends.add(place[at])
            start.add(first[at])
            inner = np.flatnonzero(source.is_end[place] & (trie.children[here] > 0))
            nodes.add(here[inner])
            owner.add(first[inner])
        self._tokens, self._ends, self._bounds = _grouped_by_start(
            start.all(), len(source.cuts) - 1, token.all(), ends.all()
        )
        every = nodes.all()
        is_met = np.zeros(len(trie.byte), dtype=np.bool_)
        is_met[every] = True
        self.below: Ints = np.flatnonzero(is_met)
        number = np.empty(len(trie.byte), dtype=np.int64)
        number[self.below] = np.arange(len(self.below))
        self._nodes, _, self._node_bounds = _grouped_by_start(owner.all(), len(source.cuts) - 1, number[every], every)

    def at(self, places: Ints) -> tuple[Ints, Ints, Ints]:
        """The tokens that copy the source from these positions, the positions they reach, and indexes into `below`.

        Each position is the beginning of a character.
        """
        if len(places) == 1:
            return self._at_one(int(self._source.which[places[0]]))
        inside = places[: np.searchsorted(places, len(self._source.spelled))]  # the last may be the end of the source
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
        """As `at` from any positions, below a trie node; it returns nodes of the trie instead of indexes."""
        token, ends, nodes = _Rows(), _Rows(), _Rows()
        for here, place, _ in self._levels(places, node):
            found, at = self._trie.ending_at(here)
            token.add(found)
            ends.add(place[at])
            nodes.add(here[self._source.is_end[place]])
        return token.all(), ends.all(), nodes.all()

    def _levels(self, places: Ints, node: int) -> list[tuple[Ints, Ints, Ints]]:
        """Level by level: trie nodes that copy the source, the position each reaches, and the index of its start."""
        found = []
        here, first = np.full(len(places), node, dtype=np.int64), np.arange(len(places))
        while len(here):
            going_on = np.flatnonzero(self._source.letters[places] != NOTHING)
            here, places, first = here[going_on], places[going_on], first[going_on]
            here, at = self._trie.children_by(here, self._source.letters[places])
            places, first = places[at] + 1, first[at]
            found.append((here, places, first))
        return found


class _Rows:
    def __init__(self) -> None:
        self._parts: list[Ints] = [np.zeros(0, dtype=np.int64)]

    def add(self, part: Ints) -> None:
        self._parts.append(part)

    def all(self) -> Ints:
        return np.concatenate(self._parts)


def _grouped_by_start(start: Ints, count: int, first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """Both arrays sorted by their start, and the index of the first entry of each start."""
    order = np.argsort(start, kind="stable")
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(start, minlength=count), out=bounds[1:])
    return first[order], second[order], bounds


def matches_of(source: SpelledSource, tokens: Tokens) -> Matches:
    known: LruCache[SpelledSource, Matches] = tokens.cached("matches", lambda: LruCache(MAX_SOURCES))
    return known.cached(source, lambda: Matches(source, tokens.trie))
