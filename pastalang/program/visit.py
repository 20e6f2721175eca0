"""The one place that knows the parts of every type: what is inside it, how to walk over it, how to rebuild it.

A module that only goes on into the parts uses these functions. One that has something to say about each kind of type
matches on the kinds itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, assert_never

from pastalang.program import types as t

Path: TypeAlias = tuple[str | int, ...]
NO_TYPES: Final[Mapping[str, t.Type]] = {}

JSON_KINDS: Final = frozenset({"string", "number", "boolean", "null", "array", "object"})


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


def with_parts(type: t.Type, change: Callable[[Path, t.Type], t.Type]) -> t.Type:
    """The type with every part of `parts_of` replaced by what `change` makes of its steps and its type."""
    parts = iter([change(step, part) for step, part in parts_of(type)])
    match type:
        case t.Array():
            return replace(type, item=next(parts))
        case t.Map():
            return replace(type, value=next(parts))
        case t.Tuple():
            return replace(type, items=tuple(parts))
        case t.Object(fields=fields):
            return replace(type, fields=tuple(replace(field, type=next(parts)) for field in fields))
        case t.Union():
            return replace(type, arms=tuple(parts))
        case _:
            return type


def parts_of_value(type: t.Type, value: Any) -> Iterator[tuple[str | int, t.Type, Any]]:
    """The parts of a list or an object, each with its key or index and its type. Missing keys are left out."""
    match type, value:
        case t.Array(item=item), list():
            yield from ((index, item, part) for index, part in enumerate(value))
        case t.Tuple(items=items), list():
            yield from ((index, item, part) for index, (item, part) in enumerate(zip(items, value, strict=True)))
        case t.Map(value=item), dict():
            yield from ((key, item, part) for key, part in value.items())
        case t.Object(fields=fields), dict():
            yield from ((field.key, field.type, value[field.key]) for field in fields if field.key in value)
        case _:
            return


def part_at(type: t.Type, key: str | None) -> t.Type | None:
    """The type of the value of a key, or of any item if `key` is None. None if the type has no such part."""
    if isinstance(type, t.Array):
        return type.item if key is None else None
    if key is None or isinstance(type, t.Anything):
        return type if isinstance(type, t.Anything) else None
    if isinstance(type, t.Map):
        return type.value
    fields = type.fields if isinstance(type, t.Object) else ()
    return next((field.type for field in fields if field.key == key), None)


def walk(type: t.Type, path: Path = ()) -> Iterator[tuple[Path, t.Type]]:
    """The type and every type inside it, outermost first.

    Names are not followed: the types of a program are finite only without them.
    """
    yield path, type
    for step, part in parts_of(type):
        yield from walk(part, (*path, *step))


def reached(type: t.Type, types: Mapping[str, t.Type]) -> Iterator[t.Type]:
    """The type and every type inside it, with those that it refers to by name. Each name is followed once."""
    waiting, met = [type], set[str]()
    while waiting:
        for _, part in walk(waiting.pop()):
            yield part
            if isinstance(part, t.Named) and part.name not in met and part.name in types:
                met.add(part.name)
                waiting.append(types[part.name])


def named_types(type: t.Type, types: Mapping[str, t.Type]) -> dict[str, t.Type]:
    """Those of the declared types that the type refers to by name, directly or through others, as they are declared."""
    names = {part.name for part in reached(type, types) if isinstance(part, t.Named)}
    return {name: part for name, part in types.items() if name in names}


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


def flat_arms(type: t.Type) -> tuple[t.Type, ...]:
    """The arms of a union, with the unions inside it spread out. Names stay. Any other type is its own only arm."""
    if not isinstance(type, t.Union):
        return (type,)
    return tuple(inner for arm in type.arms for inner in flat_arms(arm))


def json_kinds(type: t.Type) -> frozenset[str]:
    """The kinds of JSON values that the type may have. Names and types that hold anything have all of them."""
    if isinstance(type, t.Patterned):
        return frozenset({"string"})
    match type:
        case t.Verbatim():
            return frozenset({"string"})
        case t.Integer() | t.Number():
            return frozenset({"number"})
        case t.Boolean() | t.Literal(value=bool()):
            return frozenset({"boolean"})
        case t.Null() | t.Literal(value=None):
            return frozenset({"null"})
        case t.Literal(value=value):
            return frozenset({"string" if isinstance(value, str) else "number"})
        case t.Array() | t.Tuple():
            return frozenset({"array"})
        case t.Map() | t.Object():
            return frozenset({"object"})
        case t.Union(arms=arms):
            return frozenset().union(*map(json_kinds, arms))
        case t.Named() | t.Schema() | t.Anything():
            return JSON_KINDS
        case _:
            assert_never(type)
