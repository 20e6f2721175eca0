"""Automata over the bytes of values: of regular expressions, of several at once, and of numbers within bounds.

An automaton of a regular expression is nondeterministic, with about one place per character of the pattern; a state is
a set of places. Sets are built when they are reached, so a pattern never costs the exponential number of sets that it
could have.

The automaton of numbers is exact: no exponents, no leading zeros, no `-0`, and no more digits than a double can
distinguish. All arithmetic is on integers: a number is counted in units of its last possible decimal place. `12.5` with
two places is 1250 units.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from math import lcm
from typing import Protocol, assert_never

import numpy as np

from pastalang.program import types as t
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
from pastalang.runtime.constraints.guide import GuideError

_MAX_SEARCHED = 20_000  # states to search for a common ending: patterns that need more are refused


class Automaton(Protocol):
    """A deterministic automaton over bytes, of which every state leads to an ending."""

    @property
    def start(self) -> Hashable: ...

    @property
    def alphabet(self) -> bytes:
        """The bytes of all values."""
        ...

    def ways(self, state: Hashable) -> Iterable[tuple[bytes, Hashable]]:
        """The transitions: disjoint sets of bytes, and the state that each set leads to."""
        ...

    def accepts(self, state: Hashable) -> bool: ...

    def ending(self, state: Hashable) -> bytes:
        """The fewest bytes to an accepting state."""
        ...


class IntersectionAutomaton:
    """See `Automaton`. It only has states from which all of its automata reach a common ending."""

    def __init__(self, automata: Seq[RegexAutomaton]) -> None:
        self._automata = tuple(automata)
        self.start: Hashable = tuple(automaton.start for automaton in automata)
        self._endings: dict[Hashable, bytes | None] = {}
        if self._find_ending(self.start) is None:
            raise GuideError("no string fits the pattern, the format and the limits of length together")

    @property
    def alphabet(self) -> bytes:
        return bytes(sorted(set.intersection(*(set(automaton.alphabet) for automaton in self._automata))))

    def ways(self, state: Hashable) -> Iterator[tuple[bytes, Hashable]]:
        following = {byte: to for byte, to in self._steps(state).items() if self._find_ending(to) is not None}
        return group_by_state(following)

    def accepts(self, state: Hashable) -> bool:
        assert isinstance(state, tuple)
        return all(automaton.accepts(part) for automaton, part in zip(self._automata, state, strict=True))

    def ending(self, state: Hashable) -> bytes:
        found = self._find_ending(state)
        assert found is not None
        return found

    def _steps(self, state: Hashable) -> dict[int, Hashable]:
        assert isinstance(state, tuple)
        ways = [automaton.edges(part) for automaton, part in zip(self._automata, state, strict=True)]
        shared = set(ways[0]).intersection(*ways[1:])
        return {byte: tuple(way[byte] for way in ways) for byte in sorted(shared)}

    def _find_ending(self, state: Hashable) -> bytes | None:
        """A search in breadth. It also stores the endings of all states on the way that it finds."""
        if state in self._endings:
            return self._endings[state]
        came: dict[Hashable, tuple[Hashable, int] | None] = {state: None}
        level = [state]
        while level:
            following_level: list[Hashable] = []
            for here in level:
                known = self._endings.get(here)
                if self.accepts(here) or known is not None:
                    return self._remember(here, b"" if self.accepts(here) else known or b"", came)
                if here in self._endings:
                    continue
                for byte, following in self._distinct(here):
                    if following not in came:
                        came[following] = (here, byte)
                        following_level.append(following)
            if len(came) > _MAX_SEARCHED:
                raise GuideError("the pattern, the format and the limits of length are too complex together")
            level = following_level
        for dead in came:
            self._endings[dead] = None
        return None

    def _distinct(self, state: Hashable) -> list[tuple[int, Hashable]]:
        found: dict[Hashable, int] = {}
        for byte, following in self._steps(state).items():
            found.setdefault(following, byte)
        return [(byte, following) for following, byte in found.items()]

    def _remember(self, here: Hashable, ending: bytes, came: dict[Hashable, tuple[Hashable, int] | None]) -> bytes:
        self._endings[here] = ending
        while (step := came[here]) is not None:
            here, ending = step[0], bytes((step[1],)) + ending
            self._endings[here] = ending
        return ending


def group_by_state(following: Mapping[int, Hashable]) -> Iterator[tuple[bytes, Hashable]]:
    """Group bytes by the state that they lead to."""
    found: dict[Hashable, bytearray] = {}
    for byte, to in following.items():
        found.setdefault(to, bytearray()).append(byte)
    for to, bytes_ in found.items():
        yield bytes(bytes_), to


# ── regular expressions ──────────────────────────────────────────────────────────────────────────────────


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


class RegexAutomaton:
    """See `Automaton`. A state is a set of places, as bits of an integer; a value ends at `_final`."""

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

    @cached_property
    def alphabet(self) -> bytes:
        ranges = {(low, high) for arcs in self._places.arcs for low, high, _ in arcs}
        return bytes(sorted({byte for low, high in ranges for byte in range(low, high + 1)}))

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


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────


_ZERO, _MINUS, _POINT = ord("0"), ord("-"), ord(".")
_INTEGER_DIGITS = 19  # as many as 64-bit integers have; bounds may allow more
_EXACT_DIGITS = 15  # decimal digits that a double keeps


@dataclass(frozen=True, slots=True)
class NumberPrefix:
    """The number so far: its digits as one integer, the number of digits before the point (`digits`) and after it.

    `places` None: no point yet. `digits` 0: no digit yet.
    """

    negative: bool
    value: int
    digits: int
    places: int | None


@dataclass(frozen=True, slots=True)
class _Rule:
    """Magnitudes in units, both ends included, for one sign; empty if `low > high`."""

    low: int
    high: int


class NumberAutomaton:
    """See `Automaton`."""

    alphabet = b"-.0123456789"

    def __init__(self, type: t.Integer | t.Number) -> None:
        self._places = _places(type)
        self._step = max(1, int(Decimal(type.multiple_of or 0).scaleb(self._places)))
        if not type.multiple_of and isinstance(type, t.Integer):
            self._step = 1
        low, high = _limits(type, self._places)
        self._digits = _digits(type, low, high, self._places)
        self._exact = max(_EXACT_DIGITS, self._places) if type.multiple_of is None else self._digits + self._places
        most = 10 ** (self._digits + self._places) - 1
        low, high = max(-most, low if low is not None else -most), min(most, high if high is not None else most)
        self._rules = {False: _Rule(max(low, 0), high), True: _Rule(max(-high, 1), -low)}
        # if only the number of digits is bounded, all prefixes but a single zero have the same continuations
        self._is_free = {
            negative: rule.low <= int(negative) and rule.high >= most for negative, rule in self._rules.items()
        }
        self._alike: dict[Hashable, NumberPrefix] = {}
        self._known: dict[NumberPrefix, bytes | None] = {}
        self.start: Hashable = NumberPrefix(False, 0, 0, None)
        if not any(self._shortest(state) is not None for state in (self.start, NumberPrefix(True, 0, 0, None))):
            raise GuideError("no number fits these bounds")

    def edges(self, state: Hashable) -> Mapping[int, Hashable]:
        assert isinstance(state, NumberPrefix)
        found: dict[int, Hashable] = {}
        for byte, following in self._candidates(state):
            shared = self._share(following)
            if self._shortest(shared) is not None:
                found[byte] = shared
        return found

    def ways(self, state: Hashable) -> Iterator[tuple[bytes, Hashable]]:
        return group_by_state(dict(sorted(self.edges(state).items())))

    def accepts(self, state: Hashable) -> bool:
        assert isinstance(state, NumberPrefix)
        if not state.digits or state.places == 0:
            return False
        rule, units = self._rules[state.negative], state.value * self._unit(state.places or 0)
        return rule.low <= units <= rule.high and units % self._step == 0

    def ending(self, state: Hashable) -> bytes:
        assert isinstance(state, NumberPrefix)
        found = self._shortest(state)
        if state == self.start:
            negative = self._shortest(NumberPrefix(True, 0, 0, None))
            if found is None or (negative is not None and len(negative) + 1 < len(found)):
                assert negative is not None
                return b"-" + negative
        assert found is not None
        return found

    def closing(self, begun: bytes) -> bytes | None:
        """A short ending after the beginning of a number; None if no number begins like that."""
        state: Hashable | None = self.start
        for byte in begun:
            state = None if state is None else self.edges(state).get(byte)
        return None if state is None else self.ending(state)

    def _unit(self, places: int) -> int:
        return int(10 ** (self._places - places))

    def _candidates(self, state: NumberPrefix) -> list[tuple[int, NumberPrefix]]:
        if not state.digits:
            digits = [(_ZERO + digit, NumberPrefix(state.negative, digit, 1, None)) for digit in range(10)]
            return digits if state.negative else [(_MINUS, NumberPrefix(True, 0, 0, None)), *digits]
        places = None if state.places is None else state.places + 1
        more = (places or 0) <= self._places and (places is None or _significant(state) + places <= self._exact)
        grows = state.value > 0 or state.places is not None
        digits = [
            (
                _ZERO + digit,
                NumberPrefix(state.negative, state.value * 10 + digit, state.digits + (places is None), places),
            )
            for digit in range(10)
            if more and grows
        ]
        if state.places is None and self._places:
            digits.append((_POINT, NumberPrefix(state.negative, state.value, state.digits, 0)))
        return digits

    # ── possible continuations ─────────────────────────────────────────────────────────────────────────────

    def _shortest(self, state: NumberPrefix) -> bytes | None:
        """The fewest further bytes to a valid number; None if there is none."""
        if state not in self._known:
            self._known[state] = self._find_shortest(state)
        return self._known[state]

    def _find_shortest(self, state: NumberPrefix) -> bytes | None:
        if not state.digits:
            found = [
                (str(digit).encode() + rest)
                for digit in range(10)
                if (rest := self._shortest(NumberPrefix(state.negative, digit, 1, None))) is not None
            ]
            return min(found, key=len, default=None)
        if self.accepts(state):
            return b""
        if state.places is not None:
            return self._with_places(state, state.places)
        best: bytes | None = None
        further = 0 if state.value == 0 else max(0, self._digits - state.digits)
        for more in range(further + 1):
            found_here = self._with_digits(state, more)
            if found_here is not None and (best is None or len(found_here) < len(best)):
                best = found_here
            if best is not None and len(best) <= more + 1:
                break
        return best

    def _with_digits(self, state: NumberPrefix, more: int) -> bytes | None:
        """The ending with exactly `more` digits before the point, and as few places as possible."""
        low = state.value * 10 ** (more + self._places)
        high = (state.value + 1) * 10 ** (more + self._places) - 1
        room = self._places if state.value == 0 and not more else min(self._places, self._exact - state.digits - more)
        for places in range(max(room, 0) + 1):
            units = self._first(state.negative, low, high, places)
            if units is not None:
                digits = str(units // 10**self._places)[state.digits :]
                return (digits + self._fraction(units, places)).encode()
        return None

    def _with_places(self, state: NumberPrefix, written: int) -> bytes | None:
        scale = self._places - written
        low, high = state.value * 10**scale, (state.value + 1) * 10**scale - 1
        room = min(self._places, self._exact - _significant(state))
        for places in range(max(written, 1), max(room, written) + 1):
            units = self._first(state.negative, low, high, places)
            if units is not None:
                return self._fraction(units, places)[1 + written :].encode()
        return None

    def _fraction(self, units: int, places: int) -> str:
        if not places:
            return ""
        return "." + str(units % 10**self._places).zfill(self._places)[:places]

    def _first(self, negative: bool, low: int, high: int, places: int) -> int | None:
        """The smallest valid number of units in the range that needs at most `places` decimal places."""
        rule = self._rules[negative]
        low, high = max(low, rule.low), min(high, rule.high)
        grid = lcm(self._step, 10 ** (self._places - places))
        found = -(-low // grid) * grid
        return found if found <= high else None

    def _share(self, state: NumberPrefix) -> NumberPrefix:
        """One state for all prefixes with the same continuations, so that there are few states."""
        if self._is_free[state.negative] and state.value and state.digits <= self._digits:
            first = state.value * self._unit(state.places or 0) if self._step > 1 else 0
            key: Hashable = (state.negative, state.digits, state.places, first % self._step, _significant(state))
            return self._alike.setdefault(key, state)
        if state.places is not None:
            blocks = [(state.value * 10 ** (self._places - state.places), 10 ** (self._places - state.places))]
        elif state.value == 0:
            return state
        else:
            most = max(0, self._digits - state.digits)
            blocks = [
                (state.value * 10 ** (more + self._places), 10 ** (more + self._places)) for more in range(most + 1)
            ]
        rule = self._rules[state.negative]
        where = tuple(_position(start, start + size - 1, rule) for start, size in blocks)
        if any(place is None for place in where):
            return state
        past = (state.negative, state.digits, state.places, _significant(state), state.value == 0)
        key = (past, where, blocks[0][0] % self._step)
        return self._alike.setdefault(key, state)


def _significant(state: NumberPrefix) -> int:
    """The significant digits before the point; a single zero is not one."""
    whole = state.digits
    return 0 if whole == 1 and _whole(state) == 0 else whole


def _whole(state: NumberPrefix) -> int:
    return state.value // int(10 ** (state.places or 0))


def _position(low: int, high: int, rule: _Rule) -> bool | None:
    """Whether the numbers from `low` to `high` keep the rule: True if all do, False if none does, None if some do."""
    if high < rule.low or low > rule.high:
        return False
    return True if rule.low <= low and high <= rule.high else None


def _places(type: t.Integer | t.Number) -> int:
    if isinstance(type, t.Integer):
        return 0
    if type.multiple_of is not None:
        return _decimals(type.multiple_of)
    bounds = (type.minimum, type.maximum, type.exclusive_minimum, type.exclusive_maximum)
    needed = max((_decimals(bound) for bound in bounds if bound is not None), default=0)
    return max(_EXACT_DIGITS, needed + 2)


def _decimals(value: Decimal) -> int:
    exponent = Decimal(value).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def _limits(type: t.Integer | t.Number, places: int) -> tuple[int | None, int | None]:
    """In units, both ends included."""
    unit = 10**places
    lows = [_ceil(type.minimum, unit)] if type.minimum is not None else []
    if type.exclusive_minimum is not None:
        lows.append(_floor(type.exclusive_minimum, unit) + 1)
    highs = [_floor(type.maximum, unit)] if type.maximum is not None else []
    if type.exclusive_maximum is not None:
        highs.append(_ceil(type.exclusive_maximum, unit) - 1)
    return max(lows, default=None), min(highs, default=None)


def _floor(value: int | Decimal, unit: int) -> int:
    numerator, denominator = Decimal(value).as_integer_ratio() if isinstance(value, Decimal) else (value, 1)
    return numerator * unit // denominator


def _ceil(value: int | Decimal, unit: int) -> int:
    return -_floor(-value, unit)


def _digits(type: t.Integer | t.Number, low: int | None, high: int | None, places: int) -> int:
    """The most digits before the point: enough for both bounds, and for a step beyond one of them."""
    usual = _INTEGER_DIGITS if isinstance(type, t.Integer) else _EXACT_DIGITS
    known = [len(str(abs(bound) // 10**places)) for bound in (low, high) if bound is not None]
    if low is not None and high is not None:
        return max(known)
    step = len(str(abs(int(Decimal(type.multiple_of))))) if type.multiple_of is not None else 1
    return max(usual, step + 1, *(digits + step + 1 for digits in known)) if known else max(usual, step + 1)
