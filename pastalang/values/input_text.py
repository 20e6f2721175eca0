"""Writes inputs as text for a prompt, alone and in the loops and conditions of a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

from pastalang.program import pieces as p
from pastalang.program.types import Literal

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
