"""The text of a `.pasta` file and places in it: lines, columns, spans."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open range `[start, end)` of characters in one source."""

    start: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.end

    def join(self, other: Span) -> Span:
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Place:
    """A position as people count it: line and column from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Source:
    """The text of one file and the name under which people know it."""

    name: str
    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Where each line begins; `\\n` ends a line (`\\r\\n` is normalised on reading)."""
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return tuple(starts)

    def place(self, offset: int) -> Place:
        line = bisect_right(self.line_starts, offset)
        return Place(line, offset - self.line_starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of line `number`, counted from 1, without its line end."""
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]
