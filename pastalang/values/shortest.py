"""The fewest bytes that a value of a type can take: what a limit of tokens must have room for, token by byte."""

from __future__ import annotations

import json
from typing import Final

from pastalang.program import types as t
from pastalang.values import regex
from pastalang.values.formats import FORMATS

_TEMPORAL: Final = {t.Moment.DATE: 10, t.Moment.DATETIME: 19, t.Moment.TIME: 8}
_UUID: Final = 36
_QUOTES: Final = 2


def shortest_text(type: t.Type) -> int:
    """No value is shorter, as JSON with `, ` and `: ` between its parts. Named types and schemas count as one byte."""
    match type:
        case t.String():
            patterns = (type.pattern, None if type.format is None else FORMATS[type.format].pattern)
            return max(type.min_chars, *(_least(pattern) for pattern in patterns)) + _QUOTES
        case t.Regex(pattern=pattern):
            return _least(pattern) + _QUOTES
        case t.Verbatim():
            return 1 + _QUOTES
        case t.Integer() | t.Number():
            return _shortest_number(type)
        case t.Boolean() | t.Null():
            return len("true")
        case t.Literal(value=value):
            return (
                len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
                if isinstance(value, str)
                else 1
            )
        case t.Temporal(kind=kind):
            return _TEMPORAL[kind] + _QUOTES
        case t.Uuid():
            return _UUID + _QUOTES
        case t.Union(arms=arms):
            return min(map(shortest_text, arms))
        case _:
            return _shortest_structure(type)


def _shortest_structure(type: t.Type) -> int:
    match type:
        case t.Array(item=item, min_items=least):
            return _row(least, shortest_text(item))
        case t.Map(value=value, min_items=least):
            return _row(least, _QUOTES + 2 + shortest_text(value))
        case t.Tuple(items=items):
            return _row(len(items), 0) + sum(map(shortest_text, items))
        case t.Object(fields=fields):
            keys = sum(len(json.dumps(field.key, ensure_ascii=False).encode()) + 2 for field in fields)
            return _row(len(fields), 0) + keys + sum(shortest_text(field.type) for field in fields)
        case _:
            return 1


def _row(count: int, each: int) -> int:
    return 2 + count * each + 2 * max(count - 1, 0)


def _least(pattern: str | None) -> int:
    width = None if pattern is None else regex.width(pattern)
    return 0 if width is None else width[0]


def _shortest_number(type: t.Integer | t.Number) -> int:
    low = type.minimum if type.minimum is not None else type.exclusive_minimum
    high = type.maximum if type.maximum is not None else type.exclusive_maximum
    if low is not None and low >= 1:
        return len(str(int(low)))
    return 1 + len(str(int(-high))) if high is not None and high <= -1 else 1
