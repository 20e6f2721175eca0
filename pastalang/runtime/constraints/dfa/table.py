"""The transition table of a small automaton: for every state and byte the next state.

A table does not depend on the vocabulary or the text after the value, so all holes of a type share one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

DEAD = -1
MIXED = -2  # bytes or characters lead to different states
MAX_STATES = 480
_LEAST_CLASS = 8  # bytes: with fewer it is quicker to process each

_ITSELF = -3

Ways: TypeAlias = tuple[tuple[bytes, int], ...]
CharacterClass: TypeAlias = tuple[bytes, bool]  # its ASCII, and whether every character beyond ASCII is in it


class Automaton(Protocol):
    """A deterministic automaton over bytes: transitions, accepting states, and the shortest ending of each state."""

    @property
    def start(self) -> Hashable: ...

    def edges(self, state: Hashable) -> Mapping[int, Hashable]: ...

    def ways(self, state: Hashable) -> Iterable[tuple[bytes, Hashable]]:
        """The same as `edges`, grouped: the bytes that lead to one state, and the state, by their lowest byte."""
        ...

    def accepts(self, state: Hashable) -> bool: ...

    def ending(self, state: Hashable) -> bytes: ...


@dataclass(frozen=True, eq=False)
class Table:
    """State 0 is the start. The last row is the row of `DEAD`, as index -1: it has no transitions."""

    rows: NDArray[np.int32]  # (states + 1, 256)
    accepting: NDArray[np.bool_]  # (states + 1,)
    endings: tuple[bytes, ...]
    leads: tuple[Ways, ...]  # for every state: groups of bytes, and the state each group leads to

    @property
    def size(self) -> int:
        return len(self.endings)

    @cached_property
    def ending_bytes(self) -> NDArray[np.int64]:
        """The number of bytes of each ending; 0 for `DEAD`."""
        return np.array([*map(len, self.endings), 0], dtype=np.int64)

    @cached_property
    def alphabet(self) -> bytes:
        return bytes(np.flatnonzero((self.rows != DEAD).any(axis=0)).tolist())

    @cached_property
    def ways(self) -> NDArray[np.int64]:
        """The number of bytes that may follow each state."""
        found: NDArray[np.int64] = (self.rows != DEAD).sum(axis=1)
        return found

    @cached_property
    def kinds(self) -> bytes:
        """The kind of every byte: bytes of one kind lead to the same state, from every state."""
        groups = dict.fromkeys(bytes_ for ways in self.leads for bytes_, _ in ways)
        held = [0] * 256
        for number, bytes_ in enumerate(groups):
            for byte in bytes_:
                held[byte] |= 1 << number
        known: dict[int, int] = {}
        return bytes(known.setdefault(group, len(known)) for group in held)

    @cached_property
    def stride(self) -> int:
        """The number of kinds and one more, which stands for no byte. There are at most 256 kinds."""
        return max(self.kinds) + 2

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """The transitions by kind: `steps[state * stride + kind]` is the next state, multiplied by the stride."""
        kinds = self.stride - 1
        found = np.empty((self.size + 1, self.stride), dtype=np.int64)
        found[:, :kinds] = self.rows[:, [self.kinds.index(kind) for kind in range(kinds)]]
        found[:, kinds] = np.arange(self.size + 1)
        found[found == DEAD] = self.size
        found *= self.stride
        return found.ravel()

    @cached_property
    def dead(self) -> int:
        """The state `DEAD`, multiplied by the stride."""
        return self.size * self.stride

    def singles(self, state: int) -> bytes:
        """The bytes that may follow the state and are not in one of its large classes."""
        found = self._singles.get(state)
        if found is None:
            classes = self.classes(state)
            taken = b"".join([ascii_ for ascii_, _ in classes])
            if any(beyond for _, beyond in classes):
                taken += _BEYOND_ASCII
            every = b"".join([bytes_ for bytes_, _ in self.leads[state]])
            found = self._singles[state] = bytes(sorted(every.translate(None, taken)))
        return found

    @cached_property
    def _singles(self) -> dict[int, bytes]:
        return {}

    # ── classes of characters ──────────────────────────────────────────────────────────────────────────────

    def classes(self, state: int) -> list[CharacterClass]:
        """The large classes of characters: each leads from the state to one state."""
        if state not in self._classes:
            self._classes[state] = self._find_classes(state)
        return self._classes[state]

    @cached_property
    def _classes(self) -> dict[int, list[CharacterClass]]:
        return {}

    def _find_classes(self, state: int) -> list[CharacterClass]:
        found: list[CharacterClass] = []
        far, is_with_far = int(self._beyond[state]), False
        for bytes_, number in self.leads[state]:
            ascii_ = bytes_.translate(None, _BEYOND_ASCII)
            if len(ascii_) >= _LEAST_CLASS or (ascii_ and number == far):
                found.append((ascii_, number == far))
                is_with_far = is_with_far or number == far
        if far >= 0 and not is_with_far:
            found.append((b"", True))
        return found

    def after(self, class_: CharacterClass) -> list[int]:
        """The state after one character of the class, from every state and from `DEAD`: a state, `DEAD` or `MIXED`."""
        if class_ not in self._after:
            ascii_, beyond = class_
            parts = [self._common(np.arange(self.size + 1), list(ascii_))] if ascii_ else []
            parts += [self._beyond] if beyond else []
            found = parts[0].copy()
            for part in parts[1:]:
                found[part != found] = MIXED
            self._after[class_] = found.tolist()
        return self._after[class_]

    @cached_property
    def _after(self) -> dict[CharacterClass, list[int]]:
        return {}

    def _common(self, states: NDArray[np.int64], bytes_: list[int]) -> NDArray[np.int32]:
        """The state after any of these bytes, from each state; `MIXED` if it depends on the byte."""
        rows = self.rows[states][:, bytes_]
        found: NDArray[np.int32] = np.where((rows == rows[:, :1]).all(axis=1), rows[:, 0], MIXED).astype(np.int32)
        return found

    @cached_property
    def _beyond(self) -> NDArray[np.int32]:
        """The state after any character beyond ASCII, from every state; `MIXED` if it depends on the character."""
        if not any(byte >= 0x80 for byte in self.alphabet):
            return np.full(self.size + 1, DEAD, dtype=np.int32)
        everywhere = np.arange(self.size + 1)
        last = self._common(everywhere, list(range(0x80, 0xC0)))
        ways = []
        for low, high, tail_low, tail_high, rest in _LEADS:
            lead = self._common(everywhere, list(range(low, high + 1)))
            tail = self._common(everywhere, list(range(tail_low, tail_high + 1)))
            for _ in range(rest):
                tail = _chained(tail, last)
            ways.append(_chained(lead, tail))
        found = ways[0].copy()
        for way in ways[1:]:
            found[way != found] = MIXED
        return found


_BEYOND_ASCII = bytes(range(0x80, 0x100))

# Lowest and highest first byte, lowest and highest second byte, number of further bytes.
_LEADS = (
    (0xC2, 0xDF, 0x80, 0xBF, 0), (0xE0, 0xE0, 0xA0, 0xBF, 1), (0xE1, 0xEC, 0x80, 0xBF, 1), (0xED, 0xED, 0x80, 0x9F, 1),
    (0xEE, 0xEF, 0x80, 0xBF, 1), (0xF0, 0xF0, 0x90, 0xBF, 2), (0xF1, 0xF3, 0x80, 0xBF, 2), (0xF4, 0xF4, 0x80, 0x8F, 2),
)  # fmt: skip


def _chained(first: NDArray[np.int32], then: NDArray[np.int32]) -> NDArray[np.int32]:
    """Two steps in a row; `MIXED` stays `MIXED`. `DEAD` is the last state of both."""
    found: NDArray[np.int32] = np.where(first == MIXED, MIXED, then[first]).astype(np.int32)
    return found


def group_edges(edges: Mapping[int, Hashable]) -> Iterator[tuple[bytes, Hashable]]:
    """Group edges, sorted by their bytes, by the state they lead to."""
    found: dict[Hashable, bytearray] = {}
    for byte, following in edges.items():
        found.setdefault(following, bytearray()).append(byte)
    for following, bytes_ in found.items():
        yield bytes(bytes_), following


def tabulate(automaton: Automaton, most: int = MAX_STATES) -> Table | None:
    """The table of the automaton; None if it has more than `most` states."""
    numbers: dict[Hashable, int] = {automaton.start: 0}
    states: list[Hashable] = [automaton.start]
    leads: list[Ways] = []
    for state in states:
        ways = []
        for bytes_, following in automaton.ways(state):
            number = numbers.setdefault(following, len(states))
            if number == len(states):
                states.append(following)
                if number >= most:
                    return None
            ways.append((bytes_, number))
        leads.append(tuple(ways))
    accepting, kept, leads = _merged([automaton.accepts(state) for state in states], leads)
    rows = np.full((len(leads) + 1, 256), DEAD, dtype=np.int32)
    for row, row_ways in zip(rows, leads, strict=False):
        for bytes_, number in row_ways:
            row[_columns(bytes_)] = number
    endings = tuple(automaton.ending(states[at]) for at in kept)
    return Table(rows, np.array([*accepting, False], dtype=np.bool_), endings, tuple(leads))


def _merged(accepting: list[bool], leads: list[Ways]) -> tuple[list[bool], list[int], list[Ways]]:
    """Merge states with equal transitions; the second result are the states that were kept.

    It is one pass from the last state to the first, because expressions with counts have long rows of such states. It
    does not merge loops of several states, or states inside an escape, where the same bytes are fewer characters.
    """
    stands_for, known = list(range(len(leads))), dict[tuple[bool, Ways], int]()
    escaping = _inside_escapes(leads)
    for at in reversed(range(1, len(leads))):
        if at not in escaping:
            stands_for[at] = _ITSELF
            ways = _led(leads[at], stands_for)
            stands_for[at] = known.setdefault((accepting[at], ways), at)
    kept = [at for at, number in enumerate(stands_for) if at == number]
    places = dict(zip(kept, range(len(kept)), strict=True))
    where = [places[number] for number in stands_for]
    return [accepting[at] for at in kept], kept, [_led(leads[at], where) for at in kept]


def _inside_escapes(leads: list[Ways]) -> set[int]:
    """The states inside an escape of JSON, and a few more."""
    level = {number for ways in leads for bytes_, number in ways if 0x5C in bytes_}
    found = set(level)
    for depth in range(4):
        level = {number for at in level for bytes_, number in leads[at] if depth or 0x75 in bytes_}
        found |= level
    return found


def _led(ways: Ways, where: list[int]) -> Ways:
    """The same transitions to the merged states, grouped again."""
    joined: dict[int, bytes] = {}
    for bytes_, number in ways:
        number = where[number]
        joined[number] = bytes(sorted(joined[number] + bytes_)) if number in joined else bytes_
    return tuple((bytes_, number) for number, bytes_ in joined.items())


@lru_cache(maxsize=512)
def _columns(bytes_: bytes) -> NDArray[np.intp]:
    return np.frombuffer(bytes_, dtype=np.uint8).astype(np.intp)
