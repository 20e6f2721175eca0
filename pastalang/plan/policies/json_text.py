"""The place of a JSON value in its answer, and texts next to one another."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from pastalang.plan.branches import Segment, Segments, Text
from pastalang.program.types import Sampling
from pastalang.source import Span
from pastalang.values.paths import WHOLE, is_plain_key
from pastalang.values.text import INDENT


@dataclass(frozen=True, slots=True)
class JsonContext:
    path: str  # "" for the whole answer
    depth: int  # levels of indentation of the line on which the value begins
    sampling: Sampling
    span: Span  # where to point when nothing better is known
    in_order: bool = False  # everything left to right in one branch
    in_chain: bool = False  # an item of a list: its first field is decoded in the list's own branch
    in_list: bool = False  # anywhere inside an item of a list
    group: int | None = None  # the lock-step group that its values belong to
    declared: str = ""  # the path as the program declares it, without arms and quotes

    @property
    def field(self) -> str:
        """The path as people read it."""
        return self.path or WHOLE

    def line(self, *, deeper: int = 0) -> str:
        return "\n" + INDENT * (self.depth + deeper)

    def key(self, key: str, sampling: Sampling | None) -> JsonContext:
        """The value of a key, one level deeper."""
        step = key if is_plain_key(key) else json.dumps(key, ensure_ascii=False)
        path = f"{self.path}.{step}" if self.path else step
        drawn = self.sampling if sampling is None else sampling.over(self.sampling)
        declared = f"{self.declared}.{key}" if self.declared else key
        return replace(self, path=path, depth=self.depth + 1, sampling=drawn, in_chain=False, declared=declared)

    def item(self) -> JsonContext:
        path, declared = f"{self.path}[]", f"{self.declared}[]"
        return replace(
            self, path=path, declared=declared, depth=self.depth + 1, in_chain=True, in_list=True, group=None
        )

    def arm(self, label: str | None) -> JsonContext:
        """Inside one arm of a choice; where several arms have fields the label keeps their names apart."""
        if label is None:
            return replace(self, in_chain=False, group=None)
        spelled = json.dumps(label, ensure_ascii=False) if set(label) & set('()"#') else label
        return replace(self, path=f"{self.path}({spelled})", in_chain=False, group=None)

    def apart(self) -> JsonContext:
        """Inside a branch of its own: lock-step is between the values of one skeleton, not deeper."""
        return replace(self, group=None, in_chain=False)

    def ordered(self) -> JsonContext:
        return replace(self, in_order=True, group=None, in_chain=False)


def merge_texts(segments: Segments) -> Segments:
    """The same segments with neighbouring texts made one and empty ones left out. The text of a value begins anew."""
    result: list[Segment] = []
    for segment in segments:
        last = result[-1] if result else None
        if isinstance(segment, Text) and not segment.text:
            continue
        if isinstance(segment, Text) and isinstance(last, Text) and last.shown == segment.shown and not segment.begins:
            result[-1] = replace(last, text=last.text + segment.text)
        else:
            result.append(segment)
    return tuple(result)
