"""Where a part of a JSON text stands: the text and the path of the part come in, a span of characters goes out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

_SCALAR: Final = re.compile(r"[^\s,\]}]+")
_SPACE: Final = re.compile(r"\s*")
_DECODER: Final = json.JSONDecoder(strict=False)


class Place(NamedTuple):
    """The characters from `start` to `end` of a text."""

    start: int
    end: int

    def contains(self, other: Place) -> bool:
        return self.start <= other.start and other.end <= self.end

    def touches(self, other: Place) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Node:
    """A value in the text, and its parts by key or index."""

    place: Place
    parts: dict[str | int, Node]

    def at(self, path: Iterable[str | int]) -> Node:
        """The part that a path leads to. A step that names no part here is passed over: validators also name
        the arms of unions and their own functions, and keys that are missing are a matter of the whole object."""
        node = self
        for step in path:
            node = node.parts.get(step, node)
        return node


def places_of(text: str) -> Node:
    """The tree of the values of a valid JSON text."""
    return _Reader(text).value()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self) -> Node:
        self._skip_space()
        start = self._at
        match self._text[start : start + 1]:
            case "{":
                parts = self._members("}", has_keys=True)
            case "[":
                parts = self._members("]", has_keys=False)
            case '"':
                parts = {}
                self._string()
            case _:
                parts = {}
                self._at = self._matched(_SCALAR)
        return Node(Place(start, self._at), parts)

    def _members(self, closing: str, *, has_keys: bool) -> dict[str | int, Node]:
        parts: dict[str | int, Node] = {}
        self._at += 1
        self._skip_space()
        while self._text[self._at] != closing:
            step: str | int = len(parts)
            if has_keys:
                step = self._string()
                self._skip_space()
                self._at += 1  # the colon
            parts[step] = self.value()
            self._skip_space()
            if self._text[self._at] == ",":
                self._at += 1
                self._skip_space()
        self._at += 1
        return parts

    def _string(self) -> str:
        value, self._at = _DECODER.raw_decode(self._text, self._at)
        return str(value)

    def _skip_space(self) -> None:
        self._at = self._matched(_SPACE)

    def _matched(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        assert found is not None, f"no JSON at character {self._at}"
        return found.end()
