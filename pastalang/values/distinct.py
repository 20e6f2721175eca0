"""Lists of different items, and maps: where a converted type asks for more than there are, it is refused by path."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.program import types as t
from pastalang.values.converted import Converted, NotExpressible
from pastalang.values.inhabited import count_values
from pastalang.values.mismatch import Mismatch

_Path = tuple[str | int, ...]


def refuse_too_few(converted: Converted, name: str) -> None:
    """Raises `NotExpressible` with all of them."""
    found = [misfit for type in (converted.type, *converted.types.values()) for misfit in _misfits(type, ())]
    if found:
        raise NotExpressible(name, found)


def _misfits(type: t.Type, path: _Path) -> Iterator[Mismatch]:
    match type:
        case t.Array(item=item, min_items=least, unique=unique):
            count = count_values(item) if unique else None
            if count is not None and count < least:
                yield Mismatch(path, f"{least} different items are asked for, but there are only {count} values")
            yield from _misfits(item, (*path, "[]"))
        case t.Map(value=value, key_pattern=pattern, min_items=least):
            count = None if pattern is None else count_values(t.Regex(pattern))
            if count is not None and count < least:
                yield Mismatch(path, f"{least} different keys are asked for, but no more than {count} can match")
            yield from _misfits(value, (*path, "{}"))
        case t.Union(arms=arms):
            for arm in arms:
                yield from _misfits(arm, path)
        case t.Tuple(items=items):
            for number, item in enumerate(items):
                yield from _misfits(item, (*path, number))
        case t.Object(fields=fields):
            for field in fields:
                yield from _misfits(field.type, (*path, field.key))
        case _:
            return
