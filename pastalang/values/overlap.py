"""Whether types can share a value, and the key that distinguishes the objects of a union."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Final

from pastalang.program import types as t
from pastalang.values.fit import find_mismatches

_MAX_PAIRED: Final = 64  # up to so many objects are compared in pairs
_ANY: Final = "any"


def find_discriminator(arms: Sequence[t.Type], *, allow_defaults: bool = False) -> str | None:
    """The first key whose literals differ in all object arms, if there are several.

    A key with a default may be missing in a value. It counts only with `allow_defaults`, where values always have it.
    """
    objects = [arm for arm in arms if isinstance(arm, t.Object)]
    if len(objects) < 2:
        return None
    keys = (field.key for field in objects[0].fields)
    return next((key for key in keys if _distinguishes(key, objects, allow_defaults=allow_defaults)), None)


def overlap(arms: Sequence[t.Type], types: Mapping[str, t.Type]) -> tuple[int, int] | None:
    """The indexes of two arms that may share a value; None if certainly none do."""
    shapes = [types.get(arm.name, t.Anything()) if isinstance(arm, t.Named) else arm for arm in arms]
    literals = [at for at, shape in enumerate(shapes) if isinstance(shape, t.Literal)]
    objects = [at for at, shape in enumerate(shapes) if isinstance(shape, t.Object)]
    others = [at for at in range(len(shapes)) if at not in {*literals, *objects}]
    return (
        _equal_literals(shapes, literals)
        or _similar_objects(shapes, objects)
        or _first_pair(shapes, combinations(others, 2))
        or _first_pair(shapes, product(others, (*literals, *objects)))
    )


def _distinguishes(key: str, objects: Sequence[t.Object], *, allow_defaults: bool = False) -> bool:
    seen: set[t.Literal] = set()
    for one in objects:
        tags = _tags(one, key, allow_defaults=allow_defaults)
        if not tags or tags & seen:
            return False
        seen |= tags
    return True


def _equal_literals(shapes: Sequence[t.Type], literals: Sequence[int]) -> tuple[int, int] | None:
    first: dict[t.Type, int] = {}
    for at in literals:
        if shapes[at] in first:
            return first[shapes[at]], at
        first[shapes[at]] = at
    return None


def _similar_objects(shapes: Sequence[t.Type], objects: Sequence[int]) -> tuple[int, int] | None:
    """Usually one key distinguishes all objects. If none does, each pair needs a key of its own."""
    if len(objects) < 2 or find_discriminator([shapes[at] for at in objects]) is not None:
        return None
    if len(objects) > _MAX_PAIRED:
        return objects[0], objects[1]
    return _first_pair(shapes, combinations(objects, 2))


def _first_pair(shapes: Sequence[t.Type], pairs: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    return next((pair for pair in pairs if not _are_disjoint(shapes[pair[0]], shapes[pair[1]])), None)


def _are_disjoint(left: t.Type, right: t.Type) -> bool:
    if isinstance(left, t.Literal) and isinstance(right, t.Literal):
        return left != right
    if isinstance(left, t.Literal):
        return _ANY not in _kinds(right) and bool(find_mismatches(right, left.value))
    if isinstance(right, t.Literal):
        return _are_disjoint(right, left)
    if isinstance(left, t.Object) and isinstance(right, t.Object):
        return any(_distinguishes(field.key, (left, right)) for field in left.fields)
    return not _kinds(left) & _kinds(right)


def _tags(type: t.Object, key: str, *, allow_defaults: bool) -> frozenset[t.Literal]:
    """The literals that the key may hold; none if it may hold anything else."""
    for field in type.fields:
        if field.key == key and (allow_defaults or field.default is None):
            arms = field.type.arms if isinstance(field.type, t.Union) else (field.type,)
            literals = frozenset(arm for arm in arms if isinstance(arm, t.Literal))
            return literals if len(literals) == len(arms) else frozenset()
    return frozenset()


def _kinds(type: t.Type) -> frozenset[str]:
    match type:
        case t.String() | t.Regex() | t.Temporal() | t.Uuid() | t.Verbatim():
            return frozenset({"string"})
        case t.Integer() | t.Number():
            return frozenset({"number"})
        case t.Boolean():
            return frozenset({"boolean"})
        case t.Null():
            return frozenset({"null"})
        case t.Literal(value=value):
            return frozenset(
                {"boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"}
            )
        case t.Array() | t.Tuple():
            return frozenset({"array"})
        case t.Map() | t.Object():
            return frozenset({"object"})
        case t.Union(arms=arms):
            return frozenset().union(*map(_kinds, arms))
        case _:
            return frozenset({_ANY, "string", "number", "boolean", "null", "array", "object"})
