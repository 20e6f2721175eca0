"""Which part of an answer is decoded again: the answer as it is read and an objection come in, targets go out.

"price": null        a choice or a list wrote it      its branch, from its beginning
"brand": "acme"      one hole wrote it                that hole
{"a": 1, "b": 2}     several did                      those that the validator reads, else all of them
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.runtime.repair.validation import Objection
from pastalang.testing.slow.answer import Field, Sheet
from pastalang.testing.slow.branch import Instance, Point
from pastalang.values.json_places import Node, places_of
from pastalang.values.json_places import Place as Span

Key: TypeAlias = tuple[str, tuple[int, ...]]
_BEFORE_VALUE = re.compile(r'"([^"\\]|\\.)*": ')


@dataclass(frozen=True, eq=False)
class Target:
    """`key` is the same in every attempt."""

    key: Key
    sheet: Sheet
    span: Span
    point: Point
    field: Field | None

    @property
    def branch(self) -> Instance:
        return self.point.branch.latest

    @property
    def text(self) -> str:
        return self.sheet.text[self.span.start : self.span.end]

    @property
    def confidence(self) -> float:
        return math.exp(math.fsum(self.field.log_probabilities)) if self.field else 1.0


def fields_of(sheet: Sheet) -> list[Target]:
    return [Target((one.hole.field, one.items), sheet, span, one.point, one) for one, span in sheet.fields]


def targets_of(sheet: Sheet, objection: Objection) -> list[Target]:
    """Nobody, where all of it is known text."""
    value = places_of(sheet.text).at(objection.path)
    found: dict[Key, Target] = {}
    for part in _parts_read(value, objection):
        for target in _writers(sheet, part.place):
            found[target.key] = target
    return list(found.values())


def _parts_read(value: Node, objection: Objection) -> list[Node]:
    return [value.parts[key] for key in objection.fields if key in value.parts] or [value]


def _writers(sheet: Sheet, value: Span) -> list[Target]:
    around = [target for target in _branches_of(sheet) if target.span.contains(value)]
    holes = [target for target in fields_of(sheet) if target.span.touches(value)]
    whole = [target for target in around if target.span == value]
    if whole and not any(hole.span == value for hole in holes):
        return whole[:1]
    return holes or sorted(around, key=lambda target: target.span.end - target.span.start)[:1]


def _branches_of(sheet: Sheet) -> Iterator[Target]:
    """Inner ones first. Where a branch writes its key itself, its value begins behind that."""
    for author, span in sheet.branches:
        assert isinstance(author, Instance)
        if author.beginning is not None:
            key = _BEFORE_VALUE.match(sheet.text, span.start, span.end)
            value = Span(key.end() if key else span.start, span.end)
            yield Target((author.spec.name, author.items), sheet, value, author.beginning, None)
