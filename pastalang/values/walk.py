"""Walks over a hole type and the types inside it, with the path of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pastalang.program import types as t

Path: TypeAlias = tuple[str | int, ...]


def walk(type: t.Type, path: Path = ()) -> Iterator[tuple[Path, t.Type]]:
    """The type and every type inside it, outermost first.

    Names are not followed: the types of a program are finite only without them.
    """
    yield path, type
    for step, part in parts_of(type):
        yield from walk(part, (*path, *step))


def parts_of(type: t.Type) -> Iterator[tuple[Path, t.Type]]:
    """The types directly inside a type, each with the steps that lead to it. An arm of a union has no step."""
    match type:
        case t.Array(item=item):
            yield ("[]",), item
        case t.Map(value=value):
            yield ("{}",), value
        case t.Tuple(items=items):
            for index, item in enumerate(items):
                yield (index,), item
        case t.Object(fields=fields):
            for field in fields:
                yield (field.key,), field.type
        case t.Union(arms=arms):
            for arm in arms:
                yield (), arm
        case _:
            return


def arms_of(type: t.Type | None, types: Mapping[str, t.Type]) -> list[t.Type]:
    """The types that a value may have, with names and unions resolved. Unknown names add nothing."""
    waiting: list[t.Type | None] = [type]
    met: set[str] = set()
    found: list[t.Type] = []
    while waiting:
        arm = waiting.pop()
        if isinstance(arm, t.Named):
            waiting += [types.get(arm.name)] if arm.name not in met else []
            met.add(arm.name)
        elif isinstance(arm, t.Union):
            waiting += reversed(arm.arms)
        elif arm is not None:
            found.append(arm)
    return found


def named_types(type: t.Type, types: Mapping[str, t.Type]) -> dict[str, t.Type]:
    """Those of the declared types that the type refers to by name, directly or through others, as they are declared."""
    met: set[str] = set()
    waiting = [type]
    while waiting:
        names = {part.name for _, part in walk(waiting.pop()) if isinstance(part, t.Named)} - met
        met |= names
        waiting += [types[name] for name in names]
    return {name: part for name, part in types.items() if name in met}
