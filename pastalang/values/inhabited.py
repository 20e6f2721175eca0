"""Which named types have a value at all: a recursive type without a way out has none."""

from __future__ import annotations

from collections.abc import Mapping

from pastalang.program import types as t


def uninhabited(types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """The names of types that no finite value has."""
    known: set[str] = set()
    while True:
        found = {name for name, type in types.items() if name not in known and _has_value(type, known)}
        if not found:
            return tuple(name for name in types if name not in known)
        known |= found


def _has_value(type: t.Type, known: set[str]) -> bool:
    match type:
        case t.Named(name=name):
            return name in known
        case t.Union(arms=arms):
            return any(_has_value(arm, known) for arm in arms)
        case t.Object(fields=fields):
            return all(_has_value(field.type, known) for field in fields)
        case t.Tuple(items=items):
            return all(_has_value(item, known) for item in items)
        case t.Array(item=item, min_items=least) | t.Map(value=item, min_items=least):
            return least == 0 or _has_value(item, known)
        case _:
            return True
