"""Spans of a text, copied exactly: a span is where it first stands in the text and how long it is.

The text is spelled as the value will be (JSON escapes where it stands in quotes) and cut into characters, so a span
begins and ends between two of them in any script. The tokens that fit at each place are found once for all places.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from pastalang.runtime.constraints.guide import GuideError, MachineState, TokenMask
from pastalang.runtime.constraints.masks import mask_of, mask_of_many
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.token_bytes import ranges
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import ROOT, Ints
from pastalang.runtime.decode.engines.source import SpelledSource, matches_of

_MAX_MASKS = 256
_MAX_PLACES = 2_000  # spans whose places are kept
_FEW_NODES = 16  # that are quicker to look up twice than to be told apart
_NEVER = 10**9 + 1
_OPEN, _CLOSED = "open", "closed"
_QUOTE = 0x22


class Span(NamedTuple):
    """`length` bytes of the spelled text from `first` on, the first of all places where they stand."""

    first: int
    length: int


_BEGIN = Span(0, 0)


def find_occurrences(source: str, span: str) -> tuple[tuple[int, int], ...]:
    """All places of the span in the source, overlapping ones too, as ranges of characters."""
    found, at = [], source.find(span)
    while at >= 0 and span:
        found.append((at, at + len(span)))
        at = source.find(span, at + 1)
    return tuple(found)


class VerbatimMachine:
    """See `guide.Machine`. A span has at least one character."""

    def __init__(self, source: SpelledSource, seam: Seam, *, quoted: bool) -> None:
        if not source.spelled:
            raise GuideError("the text to quote from is empty")
        self._source = source
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._quoted = quoted
        self._matches = matches_of(source, seam.tokens)
        self.start: MachineState = _OPEN if quoted else _BEGIN
        self._places: dict[Span, Ints] = {_BEGIN: source.begins}
        self._masks: dict[tuple[MachineState, int | None], TokenMask] = {}
        self._costs: dict[bytes, int] = {}

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

    def goes_on(self, state: MachineState) -> bool:
        if self._quoted:
            return state != _CLOSED
        return self._has_followers(state)

    def trimmed(self, state: MachineState) -> int:
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
        key = (state, None if remaining is None or remaining > 16 else remaining)
        found = self._masks.get(key)
        if found is None:
            if len(self._masks) >= _MAX_MASKS:
                self._masks = {key: mask for key, mask in self._masks.items() if key in self._first}
            found = self._masks[key] = self._make_mask(*key)
        return found

    @property
    def _first(self) -> tuple[tuple[MachineState, None], ...]:
        """What every value begins with."""
        return (self.start, None), (_BEGIN, None)

    def warm(self) -> None:
        for state in (self.start, _BEGIN):
            self.mask(state, None)
        assert self._root_closers.ndim == 1

    # ── places ───────────────────────────────────────────────────────────────────────────────────────────

    def _places_of(self, span: Span) -> Ints:
        """Where the text goes on behind the span, ascending."""
        found = self._places.get(span)
        if found is None:
            here, found = _BEGIN, self._source.begins
            for byte in self._source.spelled[span.first : span.first + span.length]:
                longer = self._longer(here, found, byte)
                assert longer is not None, "a span that does not stand in its text"
                here, found = longer, self._places[longer]
        return found

    def _longer(self, span: Span, places: Ints, byte: int) -> Span | None:
        following = places[self._source.letters[places] == byte] + 1
        if not len(following):
            return None
        longer = Span(int(following[0]) - span.length - 1, span.length + 1)
        if len(self._places) >= _MAX_PLACES:
            self._places = {_BEGIN: self._source.begins}
        self._places[longer] = following
        return longer

    def _may_end(self, state: MachineState) -> bool:
        """Spans that are alike end alike: they begin with a character, and are read from there."""
        if not isinstance(state, Span) or not state.length:
            return False
        return bool(self._source.is_cut[state.first + state.length])

    def _has_followers(self, state: MachineState) -> bool:
        return isinstance(state, Span) and int(self._places_of(state)[0]) < len(self._source.spelled)

    def _nearest(self, span: Span) -> bytes:
        """The fewest bytes to the end of a character, at least one character in all."""
        source, places = self._source, self._places_of(span)
        ends = source.cuts[np.searchsorted(source.cuts, places, side="left" if span.length else "right")]
        best = int((ends - places).argmin())
        return source.spelled[int(places[best]) : int(ends[best])]

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────────────

    def _make_mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        size = self._tokens.size
        if state == _OPEN:
            return self._behind_quote(remaining)
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
        return mask_of_many(size, np.concatenate(parts))

    def _behind_quote(self, remaining: int | None) -> TokenMask:
        """Tokens that begin with the opening quote."""
        trie = self._tokens.trie
        node = trie.find(b'"')
        if node < 0:
            return mask_of(self._tokens.size, ())
        tokens, ends, nodes = self._matches.follow(self._source.begins, node)
        parts = [self._fitting(tokens, ends, remaining), self._find_closers(np.unique(nodes))]
        if remaining is None or len(self.ending(_BEGIN) or ()) <= remaining - 1:
            parts.append(trie.ending_at(self._tokens.node(node))[0])
        return mask_of_many(self._tokens.size, np.concatenate(parts))

    def _fitting(self, tokens: Ints, ends: Ints, remaining: int | None) -> Ints:
        if remaining is None and self._tokens.vocabulary.covers_bytes:
            return tokens
        cost = np.full(len(ends), self._cost(b""), dtype=np.int64)
        for at in np.flatnonzero(~self._source.is_cut[ends]).tolist():
            place = int(ends[at])
            cut = self._source.cuts[np.searchsorted(self._source.cuts, place)]
            cost[at] = self._cost(self._source.spelled[place : int(cut)])
        found: Ints = tokens[cost <= (_NEVER - 1 if remaining is None else remaining - 1)]
        return found

    def _cost(self, rest: bytes) -> int:
        """Tokens to the end of the value, where so much of a character is missing."""
        if rest not in self._costs:
            tokens = self._tokens.shortest(rest + (b'"' if self._quoted else b""))
            self._costs[rest] = _NEVER if tokens is None else len(tokens)
        return self._costs[rest]

    @cached_property
    def _closers(self) -> _Closers:
        """The tokens that end the span inside them, by where it may have ended."""
        return _Closers(*self._closing(self._matches.below), len(self._matches.below))

    @cached_property
    def _root_closers(self) -> Ints:
        return self._find_closers(self._tokens.node(ROOT))

    def _find_closers(self, here: Ints) -> Ints:
        return self._closing(here)[0]

    def _closing(self, here: Ints) -> tuple[Ints, Ints]:
        """The tokens that end the span inside them, and the place of the node where it ended."""
        trie = self._tokens.trie
        if not self._quoted:
            inner = np.flatnonzero(here != ROOT)
            tokens, at = self._seam.behind_each(here[inner])
            return tokens, inner[at]
        shut, owner = trie.children_by(here, _QUOTE)
        tokens, at = trie.ending_at(shut)
        more, behind = self._seam.behind_each(shut)
        return np.concatenate([tokens, more]), owner[np.concatenate([at, behind])]


class _Closers:
    """Tokens by the places of nodes: most nodes have none."""

    def __init__(self, tokens: Ints, places: Ints, count: int) -> None:
        self._tokens = tokens[np.argsort(places, kind="stable")]
        self._counts = np.bincount(places, minlength=count)
        self._bounds = np.concatenate([[0], np.cumsum(self._counts)])

    def of(self, places: Ints) -> Ints:
        """Each once for every time that its place is among these."""
        places = places[self._counts[places] > 0]
        if len(places) > _FEW_NODES:
            places = np.unique(places)
        return self._tokens[ranges(self._bounds[places], self._bounds[places + 1])]
