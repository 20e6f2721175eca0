"""Small numbers for large values."""

from __future__ import annotations

from collections.abc import Hashable


class Numbers:
    """A number for every value, the same for equal ones: a large type is hashed once and not at every look-up."""

    def __init__(self, *, most: int = 2_048) -> None:
        self._most = most
        self._next = 0
        self._seen: dict[int, tuple[Hashable, int]] = {}  # by identity; the object is held, so it stays the same
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, value: Hashable) -> int:
        known = self._seen.get(id(value))
        if known is not None:
            return known[1]
        if len(self._seen) >= self._most:  # what is numbered anew from here on is no number that was given before
            self._seen.clear()
            self._numbers.clear()
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self._next
            self._next += 1
        self._seen[id(value)] = (value, number)
        return number
