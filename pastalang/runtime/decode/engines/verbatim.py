"""Spans of a text, copied exactly: where the span may stand in the text is all the state there is.

The text is spelled as the value will be (JSON escapes where it stands in quotes) and cut into characters, so a span
begins and ends between two of them in any script. The tokens that fit at each place are found once for all places.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from pastalang.runtime.decode.border import Border
from pastalang.runtime.decode.guide import GuideError, TokenMask
from pastalang.runtime.decode.machine import MachineState
from pastalang.runtime.decode.mask import join_masks, mask_of
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.trie import ROOT, Ints

_MAX_MASKS = 256
Places: TypeAlias = tuple[int, ...]  # where in the spelled text the span may have got to, ascending
_OPEN, _CLOSED = "open", "closed"


@dataclass(frozen=True)
class SpelledSource:
    """`cuts[k]` is where character k begins in `spelled`, in bytes; the last one is the end."""

    spelled: bytes
    cuts: Ints

    @cached_property
    def is_cut(self) -> frozenset[int]:
        return frozenset(self.cuts.tolist())


def spell_source(text: str, *, quoted: bool) -> SpelledSource:
    parts = [(json.dumps(character, ensure_ascii=False)[1:-1] if quoted else character).encode() for character in text]
    return SpelledSource(b"".join(parts), np.cumsum([0, *map(len, parts)]))


def find_occurrences(source: str, span: str) -> tuple[tuple[int, int], ...]:
    """All places of the span in the source, overlapping ones too, as ranges of characters."""
    found, at = [], source.find(span)
    while at >= 0 and span:
        found.append((at, at + len(span)))
        at = source.find(span, at + 1)
    return tuple(found)


class VerbatimMachine:
    """See `machine.Machine`. A span has at least one character."""

    def __init__(self, source: SpelledSource, border: Border, *, quoted: bool) -> None:
        if not source.spelled:
            raise GuideError("the text to quote from is empty")
        self._source = source
        self._border = border
        self._tokens: Tokens = border.tokens
        self._quoted = quoted
        begins = tuple(source.cuts[:-1].tolist())
        self._begins: Places = begins
        self.start: MachineState = _OPEN if quoted else ("", begins)
        self._masks: dict[object, TokenMask] = {}

    # A state is "open", ("", places) before the first character, (places,) inside, or "closed".

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        if state == _OPEN:
            return ("", self._begins) if byte == 0x22 else None
        if state == _CLOSED:
            return None
        text = self._source.spelled
        places = tuple(place + 1 for place in _places(state) if place < len(text) and text[place] == byte)
        if places:
            return (places,)
        return _CLOSED if self._quoted and byte == 0x22 and self._may_end(state) else None

    def accepts(self, state: MachineState) -> bool:
        return state == _CLOSED if self._quoted else self._may_end(state)

    def goes_on(self, state: MachineState) -> bool:
        if self._quoted:
            return state != _CLOSED
        return any(place < len(self._source.spelled) for place in _places(state))

    def trimmed(self, state: MachineState) -> int:
        return 0

    def forced(self, state: MachineState) -> bytes:
        if state == _OPEN:
            return b'"'
        if self._quoted and self._may_end(state) and not self._followers(state):
            return b'"'
        return b""

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        if state == _CLOSED:
            return ()
        text = b'"' if state == _OPEN else b""
        text += self._nearest(("", self._begins) if state == _OPEN else state)
        return self._tokens.shortest(text + (b'"' if self._quoted else b""))

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        limit = None if remaining is None or remaining > 16 else remaining
        key = (state if state == _OPEN or not _is_start(state) else "begin", limit)
        if key not in self._masks:
            if len(self._masks) >= _MAX_MASKS:
                self._masks.clear()
            self._masks[key] = self._make_mask(state, limit)
        return self._masks[key]

    # ── places ───────────────────────────────────────────────────────────────────────────────────────────

    def _may_end(self, state: MachineState) -> bool:
        if state in (_OPEN, _CLOSED) or _is_start(state):
            return False
        return not self._source.is_cut.isdisjoint(_places(state))

    def _followers(self, state: MachineState) -> bool:
        return any(place < len(self._source.spelled) for place in _places(state))

    def _nearest(self, state: MachineState) -> bytes:
        """The fewest bytes to the end of a character, at least one character in all."""
        cuts, text, start = self._source.cuts, self._source.spelled, _is_start(state)
        best: bytes | None = None
        for place in _places(state)[:1_000]:
            at = int(np.searchsorted(cuts, place, side="right" if start else "left"))
            if best is None or int(cuts[at]) - place < len(best):
                best = text[place : int(cuts[at])]
        assert best is not None
        return best

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────────────

    def _make_mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        size, parts = self._tokens.size, []
        if state == _OPEN:
            return self._behind_quote(remaining)
        tokens, ends = self._from(np.array(_places(state), dtype=np.int64), ROOT)
        parts.append(self._fitting(tokens, ends, remaining))
        crossing = [self._closers(np.array(_places(state), dtype=np.int64), ROOT, started=not _is_start(state))]
        parts.append(mask_of(size, np.concatenate(crossing)))
        return join_masks(size, parts)

    def _behind_quote(self, remaining: int | None) -> TokenMask:
        """Tokens that begin with the opening quote."""
        node = self._tokens.trie.find(b'"')
        places = np.array(self._begins, dtype=np.int64)
        if node < 0:
            return mask_of(self._tokens.size, ())
        own = self._tokens.trie.ending_at(self._tokens.node(node))[0]
        tokens, ends = self._from(places, node)
        alone = mask_of(self._tokens.size, own)
        if remaining is not None and len(self.ending(("", self._begins)) or ()) > remaining - 1:
            alone = mask_of(self._tokens.size, ())
        crossing = mask_of(self._tokens.size, self._closers(places, node, started=False))
        return join_masks(self._tokens.size, [alone, self._fitting(tokens, ends, remaining), crossing])

    def _fitting(self, tokens: Ints, ends: Ints, remaining: int | None) -> TokenMask:
        covers = self._tokens.vocabulary.covers_bytes
        if remaining is None and covers:
            return mask_of(self._tokens.size, tokens)
        cost = {end: self._cost(end) for end in np.unique(ends).tolist()}
        limit = 10**9 if remaining is None else remaining - 1
        keep = np.array([cost[end] <= limit for end in ends.tolist()], dtype=np.bool_)
        return mask_of(self._tokens.size, tokens[keep])

    def _cost(self, place: int) -> int:
        ending = self.ending(((place,),))
        return 10**9 + 1 if ending is None else len(ending)

    def _from(self, places: Ints, node: int) -> tuple[Ints, Ints]:
        """The tokens that copy the text from one of these places, and the place each leads to."""
        tokens, ends = [], []
        for nodes, at in self._levels(places, node):
            found, index = self._tokens.trie.ending_at(nodes)
            tokens.append(found)
            ends.append(at[index])
        return np.concatenate(tokens), np.concatenate(ends)

    def _levels(self, places: Ints, node: int) -> list[tuple[Ints, Ints]]:
        """Below the node, level by level: the nodes that copy the text, and where in the text each is."""
        text = np.frombuffer(self._source.spelled, dtype=np.uint8).astype(np.int64)
        nodes = np.full(len(places), node, dtype=np.int64)
        found: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        while len(nodes):
            inside = places < len(text)
            nodes, places = nodes[inside], places[inside]
            nodes = self._child(nodes, text[places])
            alive = nodes >= 0
            nodes, places = nodes[alive], places[alive] + 1
            pairs = np.unique(nodes * (len(text) + 1) + places)
            nodes, places = pairs // (len(text) + 1), pairs % (len(text) + 1)
            found.append((nodes, places))
        return found

    def _child(self, nodes: Ints, bytes_: Ints) -> Ints:
        keys = self._tokens.trie.keys
        wanted = nodes * 256 + bytes_
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, at + 1, -1)

    def _closers(self, places: Ints, node: int, *, started: bool) -> Ints:
        """The tokens that end the span inside them."""
        trie = self._tokens.trie
        levels = self._levels(places, node)
        if started:
            levels = [(np.full(len(places), node, dtype=np.int64), places), *levels]
        nodes = [nodes[np.isin(at, self._source.cuts)] for nodes, at in levels]
        here = np.unique(np.concatenate(nodes))
        if not self._quoted:
            inner = here[here != ROOT]
            return self._border.behind(inner) if len(inner) else np.zeros(0, np.int64)
        shut = trie.child(here, 0x22)
        shut = shut[shut >= 0]
        return np.concatenate([trie.ending_at(shut)[0], self._border.behind(shut)])


def _is_start(state: MachineState) -> bool:
    return isinstance(state, tuple) and len(state) == 2


def _places(state: MachineState) -> Places:
    if not isinstance(state, tuple):
        return ()
    places: Places = state[-1]
    return places
