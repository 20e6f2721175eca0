"""A small automaton written out: all of its states by number, and where every byte leads from each.

A table knows no vocabulary and no text that follows, so one is made per type and shared by all its holes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

DEAD = -1
MIXED = -2  # not all bytes lead to the same state
MAX_STATES = 480
_LEAST_CLASS = 8  # bytes; fewer are followed one by one

CharacterClass: TypeAlias = tuple[bytes, bool]  # its ASCII, and whether every character beyond ASCII is in it


class Automaton(Protocol):
    """Where each byte leads to, where a value may end, and the shortest way there."""

    @property
    def start(self) -> Hashable: ...

    def edges(self, state: Hashable) -> Mapping[int, Hashable]: ...

    def spans(self, state: Hashable) -> Iterable[tuple[int, int, Hashable]]:
        """The same as `edges`, as ranges: the first byte, the one behind the last, and where they lead."""
        ...

    def accepts(self, state: Hashable) -> bool: ...

    def ending(self, state: Hashable) -> bytes: ...


@dataclass(frozen=True, eq=False)
class Table:
    """State 0 is the start. The last row is the one that `DEAD` finds: nothing leads out of it."""

    rows: NDArray[np.int32]  # (states + 1, 256)
    accepting: NDArray[np.bool_]  # (states + 1,)
    endings: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return len(self.endings)

    @cached_property
    def ending_bytes(self) -> NDArray[np.int64]:
        """How many bytes each ending has; none for `DEAD`."""
        return np.array([*map(len, self.endings), 0], dtype=np.int64)

    @cached_property
    def alphabet(self) -> bytes:
        return bytes(np.flatnonzero((self.rows != DEAD).any(axis=0)).tolist())

    @cached_property
    def ways(self) -> NDArray[np.int64]:
        """How many bytes may follow each state."""
        found: NDArray[np.int64] = (self.rows != DEAD).sum(axis=1)
        return found

    # ── characters that lead alike ───────────────────────────────────────────────────────────────────────

    def classes(self, state: int) -> list[CharacterClass]:
        """The large classes of characters that lead from the state to one state each."""
        if state not in self._classes:
            self._classes[state] = self._find_classes(state)
        return self._classes[state]

    @cached_property
    def _classes(self) -> dict[int, list[CharacterClass]]:
        return {}

    @cached_property
    def _has_classes(self) -> NDArray[np.bool_]:
        """Of every state, whether so many characters lead alike; most states have none."""
        targets = np.sort(self.rows[:, :0x80], axis=1)
        same = (targets[:, _LEAST_CLASS - 1 :] == targets[:, : 1 - _LEAST_CLASS]) & (
            targets[:, : 1 - _LEAST_CLASS] != DEAD
        )
        found: NDArray[np.bool_] = same.any(axis=1) | (self._beyond != DEAD)
        return found

    def _find_classes(self, state: int) -> list[CharacterClass]:
        """Most states part the characters as others do, so they are parted once for all of them."""
        if not self._has_classes[state]:
            return []
        far = int(self._beyond[state])
        as_far = np.flatnonzero(self.rows[state, :0x80] == far).tolist() if far >= 0 else []
        label = min(as_far, default=None)
        key = self._labels[state].tobytes(), label, far >= 0
        if key not in self._parted:
            self._parted[key] = _parted(self._labels[state], label, leads_far=far >= 0)
        return self._parted[key]

    @cached_property
    def _parted(self) -> dict[tuple[bytes, int | None, bool], list[CharacterClass]]:
        return {}

    @cached_property
    def _labels(self) -> NDArray[np.uint8]:
        """Of every state and every ASCII character the first one that leads to the same state; `_NOWHERE` if none."""
        targets = self.rows[:, :0x80]
        order = np.argsort(targets, axis=1, kind="stable")
        ordered = np.take_along_axis(targets, order, axis=1)
        is_first = np.ones(order.shape, dtype=np.bool_)
        is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        begins = np.maximum.accumulate(np.where(is_first, np.arange(0x80), 0), axis=1)
        labels = np.empty(order.shape, dtype=np.uint8)
        np.put_along_axis(labels, order, np.take_along_axis(order, begins, axis=1).astype(np.uint8), axis=1)
        labels[targets == DEAD] = _NOWHERE
        return labels

    def after(self, class_: CharacterClass) -> NDArray[np.int32]:
        """Where one character of the class leads from every state and from `DEAD`: a state, `DEAD` or `MIXED`."""
        if class_ not in self._after:
            ascii_, beyond = class_
            parts = [self._common(np.arange(self.size + 1), list(ascii_))] if ascii_ else []
            parts += [self._beyond] if beyond else []
            found = parts[0].copy()
            for part in parts[1:]:
                found[part != found] = MIXED
            self._after[class_] = found
        return self._after[class_]

    @cached_property
    def _after(self) -> dict[CharacterClass, NDArray[np.int32]]:
        return {}

    def _common(self, states: NDArray[np.int64], bytes_: list[int]) -> NDArray[np.int32]:
        """Where each state leads if all of these bytes lead it alike."""
        rows = self.rows[states][:, bytes_]
        found: NDArray[np.int32] = np.where((rows == rows[:, :1]).all(axis=1), rows[:, 0], MIXED).astype(np.int32)
        return found

    @cached_property
    def _beyond(self) -> NDArray[np.int32]:
        """Where any character beyond ASCII leads from every state, if all of them lead alike."""
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


_NOWHERE = 0xFF


def _parted(labels: NDArray[np.uint8], far: int | None, *, leads_far: bool) -> list[CharacterClass]:
    """The large classes of one way to part the characters; `far` is the label of those that lead where the characters
    beyond ASCII lead, if these lead anywhere."""
    found: list[CharacterClass] = []
    for label, count in enumerate(np.bincount(labels, minlength=_NOWHERE + 1)[:_NOWHERE].tolist()):
        if count >= _LEAST_CLASS or (count and label == far):
            found.append((np.flatnonzero(labels == label).astype(np.uint8).tobytes(), label == far))
    if leads_far and far is None:
        found.append((b"", True))
    return found


# First and last lead byte, first and last byte behind it, how many more bytes follow.
_LEADS = (
    (0xC2, 0xDF, 0x80, 0xBF, 0), (0xE0, 0xE0, 0xA0, 0xBF, 1), (0xE1, 0xEC, 0x80, 0xBF, 1), (0xED, 0xED, 0x80, 0x9F, 1),
    (0xEE, 0xEF, 0x80, 0xBF, 1), (0xF0, 0xF0, 0x90, 0xBF, 2), (0xF1, 0xF3, 0x80, 0xBF, 2), (0xF4, 0xF4, 0x80, 0x8F, 2),
)  # fmt: skip


def _chained(first: NDArray[np.int32], then: NDArray[np.int32]) -> NDArray[np.int32]:
    """One step behind another; what is mixed stays so. `DEAD` is the last state of both."""
    found: NDArray[np.int32] = np.where(first == MIXED, MIXED, then[first]).astype(np.int32)
    return found


def runs(edges: Mapping[int, Hashable]) -> Iterator[tuple[int, int, Hashable]]:
    """Edges in the order of their bytes come in, ranges of bytes that lead alike go out."""
    first, beyond, leads = -1, -1, None
    for byte, following in edges.items():
        if byte == beyond and following == leads:
            beyond += 1
            continue
        if leads is not None:
            yield first, beyond, leads
        first, beyond, leads = byte, byte + 1, following
    if leads is not None:
        yield first, beyond, leads


def tabulate(automaton: Automaton, most: int = MAX_STATES) -> Table | None:
    """None where the automaton has more states than that."""
    numbers: dict[Hashable, int] = {automaton.start: 0}
    states: list[Hashable] = [automaton.start]
    spans: list[tuple[int, int, int, int]] = []
    for at, state in enumerate(states):
        for first, beyond, following in automaton.spans(state):
            number = numbers.setdefault(following, len(states))
            if number == len(states):
                states.append(following)
                if number >= most:
                    return None
            spans.append((at, first, beyond, number))
    rows = np.full((len(states) + 1, 256), DEAD, dtype=np.int32)
    for at, first, beyond, number in spans:
        rows[at, first:beyond] = number
    accepting = np.array([*map(automaton.accepts, states), False], dtype=np.bool_)
    return Table(rows, accepting, tuple(automaton.ending(state) for state in states))
