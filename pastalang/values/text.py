"""Values as text: inputs in a prompt, with its loops and conditions, and the layout of an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.types import Literal
from pastalang.program.visit import NO_TYPES, walk
from pastalang.values.fit import find_mismatches
from pastalang.values.json import JsonValue, spell, spell_json

Named: TypeAlias = Callable[[str], Any]  # the value of an input or an item


def message_texts(pieces: Iterable[p.Piece], named: Named) -> list[str]:
    """The text of the pieces, in the stretches that are encoded apart: data shares no token with known text."""
    found: list[tuple[str, bool]] = []
    for piece in pieces:
        for text, is_known in _texts(piece, named, 0):
            if is_known and found and found[-1][1]:
                text = found.pop()[0] + text
            found.append((text, is_known))
    return [text for text, _ in found]


def _texts(piece: p.Piece, named: Named, number: int) -> Iterator[tuple[str, bool]]:
    """Each stretch, and whether the program gives it. `number` is that of the innermost item."""
    match piece:
        case p.Text(text=text):
            yield text, True
        case p.ItemNumber():
            yield str(number), True
        case p.InputValue(path=(name, *rest)):
            yield text_of(value_at(named(name), tuple(rest))), False
        case p.For(name=item, over=(name, *rest), body=body):
            for index, element in enumerate(value_at(named(name), tuple(rest)), start=1):
                inner = partial(named_or_item, named, item, element)
                for part in body:
                    yield from _texts(part, inner, index)
        case p.If(path=(name, *rest), body=body, otherwise=otherwise):
            for part in body if _holds(piece, value_at(named(name), tuple(rest))) else otherwise:
                yield from _texts(part, named, number)
        case _:
            raise AssertionError(f"{piece} is not part of a message before the answer")


def named_or_item(named: Named, item: str, element: Any, name: str) -> Any:
    """What `named` gives, with `element` as the item of a loop."""
    return element if name == item else named(name)


def _holds(condition: p.If, value: Any) -> bool:
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    is_so = bool(value) if condition.equals is None else condition.equals == Literal(exact)
    return is_so is not condition.is_negated


def text_of(value: Any) -> str:
    """A value as text for a prompt: text unchanged, plain lists separated by commas, records as JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case list() | tuple() if all(isinstance(item, str | int | float | Decimal) for item in value):
            return ", ".join(text_of(item) for item in value)
        case list() | tuple() | Mapping():
            return _json(value)
        case _:
            return str(value)


def _json(value: Any) -> str:
    """JSON of any kind of mapping, with every digit of its numbers."""
    match value:
        case list() | tuple():
            return f"[{', '.join(map(_json, value))}]"
        case Mapping():
            return "{" + ", ".join(f"{_json(name)}: {_json(part)}" for name, part in value.items()) + "}"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """The part of a record that a path of names leads to; in a list, a name is the number of an element."""
    for name in path:
        value = value[int(name) if isinstance(value, list | tuple) else name]
    return value


# ── the text of an answer ──────────────────────────────────────────────────────────────────────────────

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
            fitting = (arm for arm in choice_arms(type) if not find_mismatches(arm, value, types))
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
    """Returns True if running text holds the value as it is; values with structure are spelled as JSON."""
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
            return Shape("", False, _is_choice([shape_of(arm, depth) for arm in choice_arms(type)]))
        case _:
            return Shape("", False, False)


def opening_of(type: t.Type, depth: int) -> str:
    return shape_of(type, depth).opening


def is_structured(type: t.Type) -> bool:
    return shape_of(type, 0).is_structured


def has_threads(type: t.Type) -> bool:
    """Returns True if the model opens threads somewhere in the value. Named types are not looked into."""
    return any(isinstance(part, t.String) and part.auto is not None for _, part in walk(type))


def choice_arms(union: t.Union) -> tuple[t.Type, ...]:
    """The arms, with unions inside the union and booleans spread out."""
    arms: list[t.Type] = []
    for arm in union.arms:
        match arm:
            case t.Union(max_tokens=None):
                arms.extend(choice_arms(arm))
            case t.Boolean():
                arms.extend((t.Literal(True), t.Literal(False)))
            case _:
                arms.append(arm)
    return tuple(arms)


def _is_choice(arms: list[Shape]) -> bool:
    """Returns True if the first letters of the text decide the arm: no opening is empty or begins another one."""
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
