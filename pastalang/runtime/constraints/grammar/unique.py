"""Which arrays of a value hold items that differ: a type comes in, the paths to its `unique` arrays go out.

A path has one step per array or object around the place: the key of an object's field, None where every item or
key leads alike. What such paths cannot tell apart is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, assert_never

from pastalang.program import types as t
from pastalang.runtime.constraints.guide import GuideError
from pastalang.values.words import describe

Path: TypeAlias = tuple[str | None, ...]


def unique_paths(type: t.Type, types: Mapping[str, t.Type]) -> frozenset[Path]:
    """Raises `GuideError` where `unique` is promised at a place that cannot be told from one without it."""
    found = list(_places(type, types, (), ()))
    unique = {path: part for path, part, is_unique in found if is_unique}
    for path, part, is_unique in found:
        if is_unique:
            continue
        for wanted, array in unique.items():
            shared = wanted[: len(path)] if not isinstance(part, t.Array | t.Tuple) else wanted
            if len(shared) == len(path) and meet(shared, path):
                raise GuideError(
                    f"that the items of {describe(array)} differ cannot be enforced, "
                    f"because {describe(part)} may stand at the same place"
                )
    return frozenset(unique)


def meet(path: Path, other: Path) -> bool:
    """Whether one place may be at both paths."""
    steps = zip(path, other, strict=False)
    return len(path) == len(other) and all(a == b or a is None or b is None for a, b in steps)


def _places(
    type: t.Type, types: Mapping[str, t.Type], path: Path, inside: tuple[str, ...]
) -> Iterator[tuple[Path, t.Type, bool]]:
    """Every array, and everything that may hold any array, as (path, type, whether its items differ)."""
    match type:
        case t.Named(name=name):
            if name not in inside:
                yield from _places(types[name], types, path, (*inside, name))
            elif _holds_unique(types[name], types, (name,)):
                raise GuideError(f"items that differ inside the recursive type `{name}` cannot be enforced")
        case t.Union(arms=arms):
            for arm in arms:
                yield from _places(arm, types, path, inside)
        case t.Array(item=item, unique=unique):
            yield path, type, unique
            yield from _places(item, types, (*path, None), inside)
        case t.Tuple(items=items):
            yield path, type, False
            for item in items:
                yield from _places(item, types, (*path, None), inside)
        case t.Map(value=value):
            yield from _places(value, types, (*path, None), inside)
        case t.Object(fields=fields):
            for field in fields:
                yield from _places(field.type, types, (*path, field.key), inside)
        case t.Schema() | t.Anything():
            yield path, type, False
        case (
            t.String() | t.Integer() | t.Number() | t.Boolean() | t.Null() | t.Literal() | t.Regex() | t.Temporal()
            | t.Uuid() | t.Verbatim()
        ):  # fmt: skip
            return
        case _:
            assert_never(type)


def _holds_unique(type: t.Type, types: Mapping[str, t.Type], seen: tuple[str, ...]) -> bool:
    match type:
        case t.Named(name=name):
            return name not in seen and _holds_unique(types[name], types, (*seen, name))
        case t.Array(unique=True):
            return True
        case t.Array(item=item) | t.Map(value=item):
            return _holds_unique(item, types, seen)
        case t.Union(arms=parts) | t.Tuple(items=parts):
            return any(_holds_unique(part, types, seen) for part in parts)
        case t.Object(fields=fields):
            return any(_holds_unique(field.type, types, seen) for field in fields)
        case _:
            return False
