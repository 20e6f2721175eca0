"""Describes a hole type in a few words for messages: "a string", "an integer from 0 to 10"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Final, assert_never

from pastalang.program import types as t
from pastalang.values.lengths import decimal_text, spell

_MOMENTS: Final = {
    t.Moment.DATE: "a date (YYYY-MM-DD)",
    t.Moment.DATETIME: "a date and time (YYYY-MM-DDTHH:MM:SS)",
    t.Moment.TIME: "a time (HH:MM:SS)",
}
_SHOWN_ARMS: Final = 12


def counted(number: int, noun: str) -> str:
    """`1 token`, `2 tokens`, `3 passes`"""
    ending = "" if number == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number:,} {noun}{ending}"


def describe(type: t.Type) -> str:
    match type:
        case t.String(format=None):
            return "a string"
        case t.String(format=format):
            return f"a string of the format {format}"
        case t.Regex(pattern=pattern):
            return f"a string that matches /{pattern}/"
        case t.Integer():
            return "an integer" + _bounds(type)
        case t.Number():
            return "a number" + _bounds(type)
        case t.Boolean():
            return "true or false"
        case t.Null():
            return "null"
        case t.Literal(value=value):
            return spell(value)
        case t.Temporal(kind=kind):
            return _MOMENTS[kind]
        case t.Uuid():
            return "a UUID"
        case t.Verbatim(source=source):
            return f"a span of `{source}`"
        case t.Array():
            return "an array"
        case t.Tuple(items=items):
            return f"an array of {counted(len(items), 'value')}"
        case t.Map() | t.Object():
            return "an object"
        case t.Union(arms=arms):
            words = list(islice(_without_repeats(describe(arm) for arm in arms), _SHOWN_ARMS + 1))
            shown = words[:_SHOWN_ARMS] + (["…"] if len(words) > _SHOWN_ARMS else [])
            return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
        case t.Named(name=name):
            return name
        case t.Schema():
            return "a value of the given JSON Schema"
        case t.Anything():
            return "any JSON value"
        case _:
            assert_never(type)


def _without_repeats(words: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for word in words:
        if word not in seen:
            seen.add(word)
            yield word


def _bounds(type: t.Integer | t.Number) -> str:
    def shown(value: object) -> str:
        return decimal_text(value) if isinstance(value, Decimal) else str(value)

    if type.minimum is not None and type.maximum is not None:
        return f" from {shown(type.minimum)} to {shown(type.maximum)}"
    words = [
        f"{word} {shown(bound)}"
        for word, bound in (
            ("at least", type.minimum),
            ("at most", type.maximum),
            ("above", type.exclusive_minimum),
            ("below", type.exclusive_maximum),
        )
        if bound is not None
    ]
    return " " + " and ".join(words) if words else ""
