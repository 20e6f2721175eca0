"""Whether types can share a value, and the key that tells the objects of a union apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from pastalang.program import types as t
from pastalang.values.fits import value_fits


def find_discriminator(arms: Sequence[t.Type]) -> str | None:
    """The first key whose literals differ in all object arms, if there are several."""
    objects = [arm for arm in arms if isinstance(arm, t.Object)]
    if len(objects) < 2:
        return None
    for candidate in objects[0].fields:
        tags = [_tags(one, candidate.key) for one in objects]
        if all(tags) and not any(left & right for left, right in combinations(tags, 2)):
            return candidate.key
    return None


def overlap(arms: Sequence[t.Type], types: Mapping[str, t.Type]) -> tuple[int, int] | None:
    """The first two arms that may share a value; None where all are certainly apart."""
    shapes = [types.get(arm.name, t.Anything()) if isinstance(arm, t.Named) else arm for arm in arms]
    for (left_at, left), (right_at, right) in combinations(enumerate(shapes), 2):
        if not _are_apart(left, right):
            return left_at, right_at
    return None


def _are_apart(left: t.Type, right: t.Type) -> bool:
    if isinstance(left, t.Literal):
        return "any" not in _kinds(right) and bool(value_fits(right, left.value))
    if isinstance(right, t.Literal):
        return _are_apart(right, left)
    if isinstance(left, t.Object) and isinstance(right, t.Object):
        return any(
            tags and other and not tags & other
            for key in (field.key for field in left.fields)
            for tags, other in [(_tags(left, key), _tags(right, key))]
        )
    return not _kinds(left) & _kinds(right)


def _tags(type: t.Object, key: str) -> frozenset[t.Literal]:
    """The literals that the key may hold; none where it is open, or may be left out."""
    for field in type.fields:
        if field.key == key and field.default is None:
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
        case t.Array() | t.Tuple():
            return frozenset({"array"})
        case t.Map() | t.Object():
            return frozenset({"object"})
        case t.Union(arms=arms):
            return frozenset().union(*map(_kinds, arms))
        case _:
            return frozenset({"any", "string", "number", "boolean", "null", "array", "object"})
