"""Comments and blank lines: what people write around a node of the syntax tree and machines ignore."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.source import Span


@dataclass(frozen=True, slots=True)
class Comment:
    text: str  # without the leading `#` and the space after it
    span: Span
    blank_before: bool = False  # a blank line is above it


@dataclass(frozen=True, slots=True)
class Trivia:
    """What people write around a node and machines ignore."""

    comments: tuple[Comment, ...] = ()
    trailing: Comment | None = None
    blank_before: bool = False  # a blank line is above the node, below its comments


NO_TRIVIA = Trivia()
