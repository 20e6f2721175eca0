"""What is known about a JSON value before decoding: its place, how its text begins, or all of its text."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise

from pastalang.plan.plan import Segment, Segments, Text
from pastalang.program import types as t
from pastalang.program.types import Sampling
from pastalang.source import Span
from pastalang.values.lengths import spell

INDENT = "  "


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
        return self.path or "answer"

    def line(self, *, deeper: int = 0) -> str:
        return "\n" + INDENT * (self.depth + deeper)

    def key(self, key: str, sampling: Sampling | None) -> JsonContext:
        """The value of a key, one level deeper."""
        step = key if key.isidentifier() or _is_plain(key) else json.dumps(key, ensure_ascii=False)
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
        return replace(self, path=self.path if label is None else f"{self.path}({label})", in_chain=False, group=None)

    def apart(self) -> JsonContext:
        """Inside a branch of its own: lock-step is between the values of one skeleton, not deeper."""
        return replace(self, group=None, in_chain=False)

    def ordered(self) -> JsonContext:
        return replace(self, in_order=True, group=None, in_chain=False)


def key_text(key: str) -> str:
    return json.dumps(key, ensure_ascii=False) + ": "


def merge_texts(segments: Segments) -> Segments:
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


def known_text(type: t.Type) -> str | None:
    """The whole text, where the type leaves no choice and needs no line of its own."""
    match type:
        case t.Literal(value=value):
            return spell(value)
        case t.Null():
            return "null"
        case t.Object(fields=()):
            return "{}"
        case t.Array(max_items=0):
            return "[]"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Shape:
    """What can be said about a value by its type alone."""

    opening: str  # how its text surely begins
    is_whole: bool  # whether that is all of its text
    is_structured: bool  # whether branches can make it faster: there is an object inside that stays visible


def shape_of(type: t.Type, depth: int) -> Shape:
    """`depth` is the indentation of the line on which the value begins. Every part is looked at once.

    A limit on the tokens of the whole makes a list or a choice one hole, because branches have no common count; so do
    items that have to differ, because branches know nothing of one another.
    """
    known = known_text(type)
    if known is not None:
        return Shape(known, True, False)
    match type:
        case t.Object(fields=fields):
            return _shape_of_object(fields, depth)
        case t.Array(item=item, unique=False, max_tokens=None) if shape_of(item, depth + 1).is_structured:
            return Shape("[", False, True)
        case t.Union(max_tokens=None):
            return Shape("", False, _is_choice([shape_of(arm, depth) for arm in arms_of(type)]))
        case _:
            return Shape("", False, False)


def opening_of(type: t.Type, depth: int) -> str:
    return shape_of(type, depth).opening


def is_structured(type: t.Type) -> bool:
    return shape_of(type, 0).is_structured


def arms_of(union: t.Union) -> tuple[t.Type, ...]:
    """The arms, with unions inside the union and booleans spread out."""
    arms: list[t.Type] = []
    for arm in union.arms:
        match arm:
            case t.Union(max_tokens=None):
                arms.extend(arms_of(arm))
            case t.Boolean():
                arms.extend((t.Literal(True), t.Literal(False)))
            case _:
                arms.append(arm)
    return tuple(arms)


def _is_choice(arms: list[Shape]) -> bool:
    """Whether the first letters of the text decide the arm: no opening is empty, and none begins another one."""
    openings = sorted(arm.opening for arm in arms)
    is_decided = all(openings) and not any(second.startswith(first) for first, second in pairwise(openings))
    return is_decided and any(arm.is_structured for arm in arms)


def _shape_of_object(fields: tuple[t.Field, ...], depth: int) -> Shape:
    text = "{"
    for index, field in enumerate(fields):
        text += ("," if index else "") + "\n" + INDENT * (depth + 1)
        if field.after:
            return Shape(text, False, True)
        text += key_text(field.key)
        if field.group is not None:  # what follows the first key of a group may be in a branch of its own
            return Shape(text, False, True)
        value = shape_of(field.type, depth + 1)
        if value.is_whole or isinstance(field.type, t.Object):  # anything else is in a branch of its own
            text += value.opening
        if not value.is_whole:
            return Shape(text, False, True)
    return Shape(text + "\n" + INDENT * depth + "}", True, True)
