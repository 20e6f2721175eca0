"""Which types have a value at all: a recursive type without a way out has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from pastalang.program import types as t


def without_values(types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """The declared types that no finite value has, in the order of their declaration."""
    inhabited: set[str] = set()
    waiting = dict(types)
    while True:
        found = {name for name, type in waiting.items() if _has_value(type, inhabited)}
        if not found:
            return tuple(waiting)
        inhabited |= found
        waiting = {name: type for name, type in waiting.items() if name not in found}


def _has_value(type: t.Type, inhabited: set[str]) -> bool:
    match type:
        case t.Named(name=name):
            return name in inhabited
        case t.Union(arms=arms):
            return any(_has_value(arm, inhabited) for arm in arms)
        case t.Object(fields=fields):
            return all(_has_value(field.type, inhabited) for field in fields)
        case t.Tuple(items=items):
            return all(_has_value(item, inhabited) for item in items)
        case t.Array(item=item, min_items=least) | t.Map(value=item, min_items=least):
            return least == 0 or _has_value(item, inhabited)
        case (
            t.String() | t.Integer() | t.Number() | t.Boolean() | t.Null() | t.Literal() | t.Regex() | t.Temporal()
            | t.Uuid() | t.Verbatim() | t.Schema() | t.Anything()
        ):  # fmt: skip
            return True
        case _:
            assert_never(type)
