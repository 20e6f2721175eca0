"""The automaton of a regular expression, over the bytes of its matches as plain text or as JSON.

It is a nondeterministic automaton with about one place per character of the pattern; a state is a set of places. Sets
are built when they are reached, so a pattern never costs the exponential number of sets that it could have.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import lru_cache
from typing import assert_never

import numpy as np

from pastalang.program.regex import (
    SURROGATES,
    Chars,
    Choice,
    Node,
    Ranges,
    Repetition,
    Sequence,
    complement,
    normalised,
)

_NONE: tuple[tuple[int, int], ...] = ()
_SHORT = {0x08: b"\\b", 0x09: b"\\t", 0x0A: b"\\n", 0x0C: b"\\f", 0x0D: b"\\r", 0x22: b'\\"', 0x5C: b"\\\\"}
_ESCAPED = (*range(0x20), 0x22, 0x5C)
_END = -1
_FEW_BITS = 1_000


@dataclass
class Nfa:
    """A nondeterministic automaton. `arcs[p]`: (lowest byte, highest byte, next place); `jumps[p]` need no byte."""

    arcs: list[list[tuple[int, int, int]]] = field(default_factory=list)
    jumps: list[list[int]] = field(default_factory=list)

    def new(self) -> int:
        self.arcs.append([])
        self.jumps.append([])
        return len(self.arcs) - 1

    def arc(self, start: int, low: int, high: int, end: int) -> None:
        self.arcs[start].append((low, high, end))


class PatternAutomaton:
    """See `table.Automaton`. A state is a set of places, as bits of an integer; a value ends at the place `_final`."""

    def __init__(self, node: Node, *, quoted: bool) -> None:
        self._places = Nfa()
        self._quoted = quoted
        start, self._final = self._places.new(), self._places.new()
        if quoted:
            inside, closing = self._places.new(), self._places.new()
            self._places.arc(start, 0x22, 0x22, inside)
            self._places.arc(closing, 0x22, 0x22, self._final)
            self._add(node, inside, closing)
        else:
            self._add(node, start, self._final)
        self._closures: dict[int, int] = {}
        self._steps: dict[int, list[tuple[int, int]]] = {}
        self._distance, self._next = _distances(self._places, self._final)
        self.start: Hashable = self._closure(start)

    @property
    def is_empty(self) -> bool:
        """Whether no string matches."""
        return not self.start

    def edges(self, state: Hashable) -> Mapping[int, Hashable]:
        return dict(sorted((byte, following) for bytes_, following in self.ways(state) for byte in bytes_))

    def ways(self, state: Hashable) -> Iterator[tuple[bytes, Hashable]]:
        assert isinstance(state, int)
        parts: list[tuple[int, int]] = []  # disjoint sets of bytes, and the places each leads to
        for place in _bits(state):
            for bytes_, leads in self._steps_of(place):
                parts = _overlaid(parts, bytes_, leads)
        joined: dict[int, int] = {}
        for bytes_, leads in parts:
            joined[leads] = joined.get(leads, 0) | bytes_
        for following, bytes_ in sorted(joined.items(), key=lambda way: way[1] & -way[1]):
            yield _bytes_of(bytes_), following

    def closing(self, begun: bytes) -> bytes | None:
        """A short ending after the beginning of a value; None if no value begins like that."""
        state = self.start
        for byte in begun:
            assert isinstance(state, int)
            state = self._after(state, byte)
        return self.ending(state) if state else None

    def accepts(self, state: Hashable) -> bool:
        assert isinstance(state, int)
        return bool(state >> self._final & 1)

    def ending(self, state: Hashable) -> bytes:
        assert isinstance(state, int)
        text, place = bytearray(), min(_bits(state), key=lambda place: (self._distance[place], place))
        while (step := self._next[place])[1] != _END:
            if step[0] is not None:
                text.append(step[0])
            place = step[1]
        return bytes(text)

    # ── sets of places ─────────────────────────────────────────────────────────────────────────────────────

    def _after(self, state: int, byte: int) -> int:
        found = 0
        for place in _bits(state):
            for low, high, end in self._places.arcs[place]:
                if low <= byte <= high:
                    found |= self._closure(end)
        return found

    def _steps_of(self, place: int) -> list[tuple[int, int]]:
        """The transitions from one place: a set of bytes as bits, and the places it leads to."""
        found = self._steps.get(place)
        if found is None:
            ends: dict[int, int] = {}
            for low, high, end in self._places.arcs[place]:
                if leads := self._closure(end):
                    ends[leads] = ends.get(leads, 0) | (2 << high) - (1 << low)
            found = self._steps[place] = [(bytes_, leads) for leads, bytes_ in ends.items()]
        return found

    def _closure(self, place: int) -> int:
        """The places reached by jumps, without those that have no arcs or cannot reach the end."""
        known = self._closures
        if place in known:
            return known[place]
        found, waiting, met = 0, [place], {place}
        order: list[int] = []
        while waiting:
            here = waiting.pop()
            order.append(here)
            found |= known.get(here, self._own(here))
            fresh = [] if here in known else [end for end in self._places.jumps[here] if end not in met]
            met.update(fresh)
            waiting += fresh
        known[place] = found
        for here in reversed(order):  # without cycles of jumps, the closures of all places on the way are known by now
            ends = self._places.jumps[here]
            if here not in known and all(end in known for end in ends):
                bits = self._own(here)
                for end in ends:
                    bits |= known[end]
                known[here] = bits
        return found

    def _own(self, place: int) -> int:
        counts = place in self._distance and (place == self._final or self._places.arcs[place])
        return 1 << place if counts else 0

    # ── the tree ───────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, node: Node, start: int, end: int) -> None:
        match node:
            case Chars(ranges):
                self._add_characters(ranges, start, end)
            case Sequence(items):
                for item in items[:-1]:
                    middle = self._places.new()
                    self._add(item, start, middle)
                    start = middle
                if items:
                    self._add(items[-1], start, end)
                else:
                    self._places.jumps[start].append(end)
            case Choice(arms):
                for arm in arms:
                    self._add(arm, start, end)
            case Repetition(item, minimum, maximum):
                self._repeat(item, minimum, maximum, start, end)
            case _:
                assert_never(node)

    def _repeat(self, item: Node, minimum: int, maximum: int | None, start: int, end: int) -> None:
        for _ in range(minimum):
            middle = self._places.new()
            self._add(item, start, middle)
            start = middle
        if maximum is None:
            loop = self._places.new()  # a place of its own, so that other ways to `start` do not enter the loop
            self._places.jumps[start].append(loop)
            back = self._places.new()
            self._add(item, loop, back)
            self._places.jumps[back].append(loop)
            self._places.jumps[loop].append(end)
            return
        self._places.jumps[start].append(end)
        for _ in range(maximum - minimum):
            middle = self._places.new()
            self._add(item, start, middle)
            self._places.jumps[middle].append(end)
            start = middle

    # ── characters ─────────────────────────────────────────────────────────────────────────────────────────

    def _add_characters(self, ranges: Ranges, start: int, end: int) -> None:
        escapes, spellings = _spelled(ranges, self._quoted)
        self._add_texts(escapes, start, end)
        shared: dict[tuple[tuple[int, int], ...], int] = {}
        for spelled in spellings:
            self._add_bytes(spelled, start, end, shared)

    def _add_texts(self, texts: Seq[bytes], start: int, end: int) -> None:
        """Texts with a common beginning share places."""
        for first in sorted({text[0] for text in texts}):
            rests = [text[1:] for text in texts if text[0] == first]
            if b"" in rests:
                self._places.arc(start, first, first, end)
            if longer := [rest for rest in rests if rest]:
                middle = self._places.new()
                self._places.arc(start, first, first, middle)
                self._add_texts(longer, middle, end)

    def _add_bytes(
        self,
        spelled: tuple[tuple[int, int], ...],
        start: int,
        end: int,
        shared: dict[tuple[tuple[int, int], ...], int],
    ) -> None:
        """Equal tails share places, so that a class of many ranges stays small."""
        (low, high), rest = spelled[0], spelled[1:]
        if not rest:
            self._places.arc(start, low, high, end)
            return
        if rest not in shared:
            shared[rest] = self._places.new()
            self._add_bytes(rest, shared[rest], end, shared)
        self._places.arc(start, low, high, shared[rest])


def _bits(number: int) -> Iterable[int]:
    """The positions of the bits that are set, ascending."""
    if number >> _FEW_BITS:
        raw = np.frombuffer(number.to_bytes(number.bit_length() // 8 + 1, "little"), dtype=np.uint8)
        found: list[int] = np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()
        return found
    places = []
    while number:
        lowest = number & -number
        places.append(lowest.bit_length() - 1)
        number ^= lowest
    return places


@lru_cache(maxsize=1024)
def _bytes_of(bits: int) -> bytes:
    return bytes(_bits(bits))


def _overlaid(parts: list[tuple[int, int]], bytes_: int, leads: int) -> list[tuple[int, int]]:
    """Add a transition over some bytes to disjoint sets of bytes, which are split where they overlap."""
    found = []
    for part, before in parts:
        if both := part & bytes_:
            found.append((both, before | leads))
            part ^= both
            bytes_ ^= both
        if part:
            found.append((part, before))
    if bytes_:
        found.append((bytes_, leads))
    return found


@lru_cache(maxsize=1024)
def _spelled(ranges: Ranges, quoted: bool) -> tuple[tuple[bytes, ...], tuple[tuple[tuple[int, int], ...], ...]]:
    """The escapes of characters between quotes, and the UTF-8 spellings of all other characters."""
    if not quoted:
        return (), tuple(_utf8_ranges(ranges))
    escapes, plain = in_quotes(ranges)
    return escapes, tuple(_utf8_ranges(plain))


@lru_cache(maxsize=1024)
def in_quotes(ranges: Ranges) -> tuple[tuple[bytes, ...], Ranges]:
    """The escapes of the characters that need one between quotes, and all other characters."""
    codes = [code for code in _ESCAPED if any(low <= code <= high for low, high in ranges)]
    plain = _without(ranges, ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)))
    return tuple(_SHORT.get(code, b"\\u%04x" % code) for code in codes), plain


def _without(ranges: Ranges, taken: Ranges) -> Ranges:
    return complement(normalised([*complement(ranges), *taken, SURROGATES]))


def _utf8_ranges(ranges: Ranges) -> Iterator[tuple[tuple[int, int], ...]]:
    """The UTF-8 spellings of these characters, as sequences of byte ranges."""
    for low, high in _without(ranges, _NONE):
        start = low
        for limit in (0x7F, 0x7FF, 0xFFFF, 0x10FFFF):
            if start <= min(high, limit):
                yield from _same_length(chr(start).encode(), chr(min(high, limit)).encode())
                start = min(high, limit) + 1


def _same_length(low: bytes, high: bytes) -> Iterator[tuple[tuple[int, int], ...]]:
    if len(low) == 1:
        yield ((low[0], high[0]),)
        return
    rest = len(low) - 1
    first, last = low[0], high[0]
    if first == last:
        yield from (((first, first), *tail) for tail in _same_length(low[1:], high[1:]))
        return
    if low[1:] != b"\x80" * rest:
        yield from (((first, first), *tail) for tail in _same_length(low[1:], b"\xbf" * rest))
        first += 1
    if high[1:] != b"\xbf" * rest:
        yield from (((last, last), *tail) for tail in _same_length(b"\x80" * rest, high[1:]))
        last -= 1
    if first <= last:
        yield ((first, last), *[(0x80, 0xBF)] * rest)


def _distances(places: Nfa, final: int) -> tuple[dict[int, int], dict[int, tuple[int | None, int]]]:
    """For each place that reaches the end: the fewest bytes to it, and the first step of that way."""
    back: list[list[tuple[int, int | None]]] = [[] for _ in places.arcs]
    for place, arcs in enumerate(places.arcs):
        for low, _, end in arcs:
            back[end].append((place, low))
    for place, jumps in enumerate(places.jumps):
        for end in jumps:
            back[end].append((place, None))
    distance: dict[int, int] = {final: 0}
    following: dict[int, tuple[int | None, int]] = {final: (None, _END)}
    level = [final]
    while level:
        level = _spread(level, back, distance, following)
    return distance, following


def _spread(
    level: list[int],
    back: list[list[tuple[int, int | None]]],
    distance: dict[int, int],
    following: dict[int, tuple[int | None, int]],
) -> list[int]:
    """The places of the next distance, given those of one distance; places reached by jumps join the current one."""
    waiting, further = list(level), []
    while waiting:
        place = waiting.pop()
        for start, byte in back[place]:
            if byte is None and start not in distance:
                distance[start] = distance[place]
                following[start] = (None, place)
                waiting.append(start)
                level.append(start)
    for place in level:
        for start, byte in back[place]:
            if byte is not None and start not in distance:
                distance[start] = distance[place] + 1
                following[start] = (byte, place)
                further.append(start)
    return further
