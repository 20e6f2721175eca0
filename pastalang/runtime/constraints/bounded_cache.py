"""A cache with a bounded number of entries, for masks and other results that are expensive to compute."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict of at most `most` entries. One entry too many clears all others: it has no record of which are used."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._most and key not in self:
            self.clear()
        super().__setitem__(key, value)

    def cached(self, key: K, make: Callable[[], V]) -> V:
        """The value of the key, computed by `make` if it is not there."""
        if key not in self:
            self[key] = make()
        return self[key]


class LruCache(OrderedDict[K, V]):
    """A dict of at most `most` entries, for few large values. The least recently used is dropped first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def cached(self, key: K, make: Callable[[], V]) -> V:
        """The value of the key, computed by `make` if it is not there."""
        if key not in self:
            self[key] = make()
            if len(self) > self._most:
                self.popitem(last=False)
        self.move_to_end(key)
        return self[key]
