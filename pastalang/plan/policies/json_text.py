"""From a type to what is known about its JSON text without decoding: all of it, or how it begins."""

from __future__ import annotations

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


def opening(type: t.Type, depth: int) -> tuple[str, bool]:
    """How the text of a value surely begins, and whether that is all of it. `depth`: indentation of its line."""
    known = known_text(type)
    if known is not None:
        return known, True
    match type:
        case t.Object(fields=fields):
            return _object_opening(fields, depth)
        case t.Array(item=item) if is_structured(item):
            return "[", False
        case _:
            return "", False


def is_structured(type: t.Type) -> bool:
    """Whether branches can make it faster: an object, or something with an object inside that stays visible.

    A limit on the tokens of the whole makes it one hole, because branches have no common count.
    """
    match type:
        case t.Object(fields=fields):
            return bool(fields)
        case t.Array(item=item, max_tokens=None, max_items=most):
            return most != 0 and is_structured(item)
        case t.Union(max_tokens=None):
            return any(is_structured(arm) for arm in arms_of(type)) and has_distinct_openings(type)
        case _:
            return False


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


def has_distinct_openings(union: t.Union) -> bool:
    """Whether the first letters of the text decide the arm: no opening begins another one."""
    openings = sorted(opening(arm, 0)[0] for arm in arms_of(union))
    return bool(openings[0]) and not any(second.startswith(first) for first, second in pairwise(openings))


def _object_opening(fields: tuple[t.Field, ...], depth: int) -> tuple[str, bool]:
    text = "{"
    for index, field in enumerate(fields):
        text += ("," if index else "") + "\n" + INDENT * (depth + 1)
        if field.after:
            return text, False
        text += key_text(field.key)
        if field.group is not None:  # what is behind the first key of a group may be in a branch of its own
            return text, False
        start, is_whole = opening(field.type, depth + 1)
        text += start
        if not is_whole:
            return text, False
    return text + "\n" + INDENT * depth + "}", True
