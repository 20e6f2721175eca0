"""Which named types the guides of a plan need: those that its holes refer to, directly or through one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pastalang.plan.plan import Branch, Hole
from pastalang.plan.structure import walk
from pastalang.program import types as t


def recursive_types(branches: tuple[Branch, ...], types: Mapping[str, t.Type]) -> tuple[tuple[str, t.Type], ...]:
    """Sorted by name, so that the same program gives the same plan."""
    found: dict[str, t.Type] = {}
    waiting = [name for branch in branches for hole in _holes(branch) for name in _names(hole.type)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = types[name]
            waiting.extend(_names(types[name]))
    return tuple(sorted(found.items()))


def _holes(branch: Branch) -> Iterator[Hole]:
    return (segment for _, segment in walk(branch.segments) if isinstance(segment, Hole))


def _names(type: t.Type) -> Iterator[str]:
    waiting: list[t.Type] = [type]
    while waiting:
        match waiting.pop():
            case t.Named(name=name):
                yield name
            case t.Array(item=item):
                waiting.append(item)
            case t.Tuple(items=items):
                waiting.extend(items)
            case t.Map(value=value):
                waiting.append(value)
            case t.Object(fields=fields):
                waiting.extend(field.type for field in fields)
            case t.Union(arms=arms):
                waiting.extend(arms)
            case _:
                pass
