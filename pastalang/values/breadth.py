"""How broad a converted type is: enums too large for one program are refused by field; lists without end are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pastalang.limits import MAX_FILE_BYTES, MAX_TYPE_PLACES
from pastalang.program import types as t
from pastalang.values.converted import Converted, NotExpressible
from pastalang.values.mismatch import Mismatch, path_text

_SHOWN = 5  # fields that are named
_ROOM = 4  # bytes between two values, at least: a bar and white space


@dataclass(frozen=True, slots=True)
class _Enum:
    path: tuple[str | int, ...]
    values: int
    size: int  # bytes


def refuse_breadth(converted: Converted, name: str) -> None:
    """Raises `NotExpressible` where the enums alone are more than a program may hold: values, or bytes."""
    found = [enum for type in (converted.type, *converted.types.values()) for enum in _enums(type, ())]
    values, size = sum(enum.values for enum in found), sum(enum.size for enum in found)
    if values > MAX_TYPE_PLACES:
        largest = sorted(found, key=lambda enum: -enum.values)[:_SHOWN]
        together = f"all enums together have {values:,}, and {MAX_TYPE_PLACES:,} are the limit"
    elif size > MAX_FILE_BYTES:
        largest = sorted(found, key=lambda enum: -enum.size)[:_SHOWN]
        together = f"all enums together are {size:,} bytes, and {MAX_FILE_BYTES:,} are the limit"
    else:
        return
    raise NotExpressible(
        name, [Mismatch(enum.path, f"an enum of {enum.values:,} values; {together}") for enum in largest]
    )


def lists_without_end(converted: Converted) -> Iterator[str]:
    """The path of every list of objects that names no maximum, as people write it."""
    for type in (converted.type, *converted.types.values()):
        for path in _without_end(type, ()):
            yield path_text(path)


def _without_end(type: t.Type, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    match type:
        case t.Array(item=item, max_items=most, max_tokens=None, unique=False):
            if isinstance(item, t.Object) and most is None:
                yield path
            yield from _without_end(item, (*path, "[]"))
        case t.Union(arms=arms):
            for arm in arms:
                yield from _without_end(arm, path)
        case t.Object(fields=fields):
            for field in fields:
                yield from _without_end(field.type, (*path, field.key))
        case _:
            return


def _enums(type: t.Type, path: tuple[str | int, ...]) -> Iterator[_Enum]:
    """Every union of literals with its path."""
    match type:
        case t.Union(arms=arms):
            literals = [arm for arm in arms if isinstance(arm, t.Literal)]
            if literals:
                size = sum(len(str(literal.value).encode()) + _ROOM for literal in literals)
                yield _Enum(path, len(literals), size)
            for arm in arms:
                yield from _enums(arm, path)
        case t.Array(item=item):
            yield from _enums(item, (*path, "[]"))
        case t.Map(value=value):
            yield from _enums(value, (*path, "{}"))
        case t.Tuple(items=items):
            for number, item in enumerate(items):
                yield from _enums(item, (*path, number))
        case t.Object(fields=fields):
            for field in fields:
                yield from _enums(field.type, (*path, field.key))
        case _:
            return
