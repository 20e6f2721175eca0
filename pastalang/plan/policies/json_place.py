"""Where a JSON value stands: its path, its line's indentation, how its tokens are drawn, who may run beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Segment, Text
from pastalang.program.types import Sampling, Type
from pastalang.source import Span

Segments: TypeAlias = tuple[Segment, ...]
INDENT = "  "


@dataclass(frozen=True, slots=True)
class At:
    path: str  # "" for the whole answer
    depth: int  # levels of indentation of the line on which the value begins
    sampling: Sampling
    span: Span  # where to point when nothing better is known
    in_order: bool = False  # everything left to right, nothing beside it
    in_chain: bool = False  # an item of a list: its first field is decoded in the list's own branch
    group: int | None = None  # the lock-step group that its values belong to
    declared: str = ""  # the path as the program declares it, without arms and quotes

    @property
    def field(self) -> str:
        """The path as people read it."""
        return self.path or "answer"

    def line(self, *, deeper: int = 0) -> str:
        return "\n" + INDENT * (self.depth + deeper)

    def key(self, key: str, sampling: Sampling | None) -> At:
        """The value of a key, one level deeper."""
        step = key if key.isidentifier() or _is_plain(key) else json.dumps(key, ensure_ascii=False)
        path = f"{self.path}.{step}" if self.path else step
        drawn = self.sampling if sampling is None else sampling.over(self.sampling)
        declared = f"{self.declared}.{key}" if self.declared else key
        return replace(self, path=path, depth=self.depth + 1, sampling=drawn, in_chain=False, declared=declared)

    def item(self) -> At:
        path, declared = f"{self.path}[]", f"{self.declared}[]"
        return replace(self, path=path, declared=declared, depth=self.depth + 1, in_chain=True, group=None)

    def arm(self, label: str | None) -> At:
        """Inside one arm of a choice; where several arms have fields the label keeps their names apart."""
        return replace(self, path=self.path if label is None else f"{self.path}({label})", in_chain=False, group=None)

    def apart(self) -> At:
        """Inside a branch of its own: lock-step is between the values of one skeleton, not deeper."""
        return replace(self, group=None, in_chain=False)

    def ordered(self) -> At:
        return replace(self, in_order=True, group=None, in_chain=False)


# The mutual recursion of objects, lists and choices goes through this, so that no module imports another's caller.
WriteValue: TypeAlias = Callable[[PlanBuilder, Type, At], Segments]


def key_text(key: str) -> str:
    return json.dumps(key, ensure_ascii=False) + ": "


def merged(segments: Segments) -> Segments:
    """The same segments with neighbouring texts made one and empty ones left out."""
    result: list[Segment] = []
    for segment in segments:
        last = result[-1] if result else None
        if isinstance(segment, Text) and not segment.text:
            continue
        if isinstance(segment, Text) and isinstance(last, Text) and last.shown == segment.shown:
            result[-1] = Text(last.text + segment.text, last.shown)
        else:
            result.append(segment)
    return tuple(result)


def _is_plain(key: str) -> bool:
    return bool(key) and all(letter.isalnum() or letter in "_-" for letter in key)
