"""From a type to what is known about its JSON text without decoding: all of it, or how it begins."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pastalang.plan.policies.json_place import INDENT, key_text
from pastalang.program import types as t
from pastalang.values.bounds import spell


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
class Look:
    """What can be said about a value by its type alone."""

    opening: str  # how its text surely begins
    is_whole: bool  # whether that is all of its text
    is_structured: bool  # whether branches can make it faster: there is an object inside that stays visible


def look_at(type: t.Type, depth: int) -> Look:
    """`depth` is the indentation of the line on which the value begins. Every part is looked at once.

    A limit on the tokens of the whole makes a list or a choice one hole, because branches have no common count; so do
    items that have to differ, because branches know nothing of one another.
    """
    known = known_text(type)
    if known is not None:
        return Look(known, True, False)
    match type:
        case t.Object(fields=fields):
            return _look_at_object(fields, depth)
        case t.Array(item=item, unique=False, max_tokens=None) if look_at(item, depth + 1).is_structured:
            return Look("[", False, True)
        case t.Union(max_tokens=None):
            return Look("", False, _is_choice([look_at(arm, depth) for arm in arms_of(type)]))
        case _:
            return Look("", False, False)


def opening(type: t.Type, depth: int) -> str:
    return look_at(type, depth).opening


def is_structured(type: t.Type) -> bool:
    return look_at(type, 0).is_structured


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


def _is_choice(arms: list[Look]) -> bool:
    """Whether the first letters of the text decide the arm: no opening is empty, and none begins another one."""
    openings = sorted(arm.opening for arm in arms)
    is_decided = all(openings) and not any(second.startswith(first) for first, second in pairwise(openings))
    return is_decided and any(arm.is_structured for arm in arms)


def _look_at_object(fields: tuple[t.Field, ...], depth: int) -> Look:
    text = "{"
    for index, field in enumerate(fields):
        text += ("," if index else "") + "\n" + INDENT * (depth + 1)
        if field.after:
            return Look(text, False, True)
        text += key_text(field.key)
        if field.group is not None:  # what is behind the first key of a group may be in a branch of its own
            return Look(text, False, True)
        value = look_at(field.type, depth + 1)
        if value.is_whole or isinstance(field.type, t.Object):  # anything else is in a branch of its own
            text += value.opening
        if not value.is_whole:
            return Look(text, False, True)
    return Look(text + "\n" + INDENT * depth + "}", True, True)
