"""Whether a part of a plan that was read holds what its fields say: values and a type come in, a name goes out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints


def wrong_field(record: type, values: Mapping[str, Any]) -> str | None:
    """The name of a field whose value is of another type; None where all fit."""
    hints = _hints(record)
    return next((name for name, value in values.items() if not _fits(value, hints[name])), None)


@cache
def _hints(record: type) -> Mapping[str, Any]:
    return get_type_hints(record)


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        return _fits(value, hint.__supertype__)
    if origin is Union or origin is UnionType:
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and _fits_places(value, parts)
    if hint is None or hint is NoneType:
        return value is None
    if hint is int or hint is float:
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _fits_places(value: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return all(_fits(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(_fits, value, parts))
