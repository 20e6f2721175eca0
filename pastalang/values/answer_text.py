"""The text of an answer: what its type says about it beforehand, and all of it once its value is known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.values.fit import find_mismatches
from pastalang.values.input_text import Named, message_texts, named_or_item, value_at
from pastalang.values.json import JsonValue, spell_json
from pastalang.values.lengths import NO_TYPES, spell
from pastalang.values.walk import walk

INDENT = "  "


def key_text(key: str) -> str:
    return json.dumps(key, ensure_ascii=False) + ": "


def answer_text(type: t.Type, value: JsonValue, types: Mapping[str, t.Type] = NO_TYPES, *, depth: int = 0) -> str:
    """A value that fits its type, laid out as the model writes it in an answer."""
    known = known_text(type)
    if known is not None:
        return known
    line, end = "\n" + INDENT * (depth + 1), "\n" + INDENT * depth
    match type, value:
        case t.Object(fields=fields), dict():
            parts = [
                key_text(place.key) + answer_text(place.type, value[place.key], types, depth=depth + 1)
                for place in fields
            ]
            return "{" + line + f",{line}".join(parts) + end + "}"
        case t.Array(item=item), [_, *_] if is_structured(type):
            items = [answer_text(item, one, types, depth=depth + 1) for one in value]
            return "[" + line + f",{line}".join(items) + end + "]"
        case t.Union(), _ if is_structured(type):
            fitting = (arm for arm in arms_of(type) if not find_mismatches(arm, value, types))
            arm = next(fitting, None)
            return spell_json(value) if arm is None else answer_text(arm, value, types, depth=depth)
        case _:
            return spell_json(value)


def running_text(
    pieces: tuple[p.Piece, ...], values: Mapping[str, JsonValue], named: Named, types: Mapping[str, t.Type] = NO_TYPES
) -> str:
    """Running text with the values of its holes, by name. Forks have a list with the values of each item."""
    return "".join(_running(pieces, values, named, types, 0))


def _running(
    pieces: tuple[p.Piece, ...], values: Mapping[str, Any], named: Named, types: Mapping[str, t.Type], number: int
) -> Iterator[str]:
    for piece in pieces:
        match piece:
            case p.Hole(name=name, type=type):
                value = values[name]
                yield value if isinstance(value, str) and is_plain(type) else answer_text(type, value, types)
            case p.ItemNumber():
                yield str(number)
            case p.Async(body=body):
                yield from _running(body, values, named, types, number)
            case p.Fork(name=name, body=body):
                for at, item in enumerate(values[name], start=1):
                    yield from _running(body, item, named, types, at)
            case p.Each(name=name, over=over, over_hole=over_hole, body=body):
                elements = value_at(values[over[0]] if over_hole else named(over[0]), over[1:])
                for at, (item, element) in enumerate(zip(values[name], elements, strict=False), start=1):
                    yield from _running(body, item, partial(named_or_item, named, name, element), types, at)
            case p.Promise() | p.Sync():
                pass
            case _:
                yield from message_texts([piece], named)


def is_plain(type: t.Type) -> bool:
    """Whether running text holds the value as it is; values with structure are spelled as JSON."""
    match type:
        case t.Union(arms=arms):
            return all(map(is_plain, arms))
        case t.Array() | t.Tuple() | t.Map() | t.Object() | t.Named() | t.Schema() | t.Anything():
            return False
        case _:
            return True


# ── what is known beforehand ─────────────────────────────────────────────────────────────────────────────


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
    """What can be said about a value by its type alone.

    `is_structured`: branches write it, because there is an object inside that stays visible, or a text with threads.
    """

    opening: str  # how its text surely begins
    is_whole: bool  # whether that is all of its text
    is_structured: bool


def shape_of(type: t.Type, depth: int) -> Shape:
    """`depth` is the indentation of the line on which the value begins. Every part is looked at once.

    A limit on the tokens of the whole makes a list or a choice one hole, because branches have no common count; so do
    items that have to differ, because branches know nothing of one another.
    """
    known = known_text(type)
    if known is not None:
        return Shape(known, True, False)
    match type:
        case t.String(auto=t.AutoPolicy()):
            return Shape('"', False, True)
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


def has_threads(type: t.Type) -> bool:
    """Whether the model opens threads somewhere in the value. Named types are not looked into."""
    return any(isinstance(part, t.String) and part.auto is not None for _, part in walk(type))


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
