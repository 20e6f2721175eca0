"""Where a piece of running text stands: the loops around it, and how its tokens are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Join, Segment, Text
from pastalang.program.pieces import Piece

Segments: TypeAlias = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class TextContext:
    path: str = ""  # "" outside every loop, else "tip[]"

    def name(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def items_of(self, name: str) -> TextContext:
        return replace(self, path=f"{self.name(name)}[]")


WritePieces: TypeAlias = Callable[[PlanBuilder, tuple[Piece, ...], TextContext], Segments]

SYNC_TAG = Text("<sync/>", shown=False)


def with_text_after_joins(segments: Segments, *, is_item: bool = False) -> Segments:
    """Something has to be fed that sees what was joined: a tag, where the program has no text there itself.

    Behind the last segment of an item stands the decision whether there is another one.
    """
    result: list[Segment] = []
    for index, segment in enumerate(segments):
        result.append(segment)
        is_last = index + 1 == len(segments)
        if isinstance(segment, Join) and (is_item if is_last else not _is_fed(segments[index + 1])):
            result.append(SYNC_TAG)
    return tuple(result)


def _is_fed(segment: Segment) -> bool:
    return isinstance(segment, Join) or (isinstance(segment, Text) and bool(segment.text))
