"""What a field could wait for with `after` and does not, and the program in which it does.

Analyses of a program advise such waits, and build the program with them to see what they change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from pastalang.graphs import reached
from pastalang.program import types as t
from pastalang.program.program import JsonBody, Program, Template
from pastalang.program.visit import Path, part_at, with_parts
from pastalang.values.paths import WHOLE, path_text

Pattern: TypeAlias = tuple[str, ...]  # the keys that lead to a field; "[]" is any item of a list
Wait: TypeAlias = tuple[Pattern, str]  # a field, and the key next to it that it waits for

ITEM: Final = "[]"


def possible_waits(template: Template, pattern: Pattern) -> list[Wait]:
    """What the field, or an object that holds it, could wait for and does not: the fields before it, nearest first."""
    body = template.messages[-1].body
    found: list[Wait] = []
    if isinstance(body, JsonBody):
        for end in range(len(pattern), 0, -1):
            holder = _at(body.type, pattern[: end - 1])
            if pattern[end - 1] != ITEM and isinstance(holder, t.Object):
                in_item = end > 1 and pattern[end - 2] == ITEM
                found += [(pattern[:end], key) for key in _waitable(holder, pattern[end - 1], in_item=in_item)]
    return found


def with_waits(program: Program, template: Template, waits: Sequence[Wait]) -> Program:
    """The program whose fields also wait for these."""
    *before, answer = template.messages
    assert isinstance(answer.body, JsonBody)
    type = answer.body.type
    for pattern, key in waits:
        type = _waiting(type, pattern, key)
    changed = replace(template, messages=(*before, replace(answer, body=replace(answer.body, type=type))))
    return replace(program, templates={**program.templates, template.name: changed})


def name_of(pattern: Pattern) -> str:
    """A field as people write it."""
    return path_text(pattern) or WHOLE


def written(waits: Sequence[Wait]) -> str:
    """`lines[].total after price, tax`"""
    keys: dict[Pattern, list[str]] = {}
    for pattern, key in waits:
        keys.setdefault(pattern, []).append(path_text((key,)))
    return " and ".join(f"{name_of(pattern)} after {', '.join(names)}" for pattern, names in keys.items())


def _waitable(holder: t.Object, key: str, *, in_item: bool) -> list[str]:
    """The keys before this one that it does not see yet, nearest first. A group is one of them or none."""
    keys = [one.key for one in holder.fields]
    if key not in keys or (in_item and key == keys[0]):  # the first field of an item waits for nothing
        return []
    member = {one.key: one.key if one.group is None else f"group {one.group}" for one in holder.fields}
    waits: dict[str, set[str]] = {}
    for one in holder.fields:
        waits.setdefault(member[one.key], set()).update(member[other] for other in one.after)
    mine = member[key]
    before = keys[: keys.index(key)]
    seen = reached([mine], waits)
    return [one for one in reversed(before) if member[one] not in seen and mine not in reached([member[one]], waits)]


def _at(type: t.Type, path: Pattern) -> t.Type | None:
    """The type at a place; None if several could be there."""
    if isinstance(type, t.Union):
        kind = t.Array if path and path[0] == ITEM else t.Object
        arms = [arm for arm in type.arms if isinstance(arm, kind)]
        return _at(arms[0], path) if len(arms) == 1 else None
    if not path:
        return type
    part = part_at(type, None if path[0] == ITEM else path[0])
    return None if part is None else _at(part, path[1:])


def _waiting(type: t.Type, path: Pattern, key: str) -> t.Type:
    """The type whose field at the path also waits for the key."""
    if isinstance(type, t.Object) and len(path) == 1:
        fields = (_also_after(field, key) if field.key == path[0] else field for field in type.fields)
        return replace(type, fields=tuple(fields))

    def change(step: Path, part: t.Type) -> t.Type:
        return _waiting(part, path[len(step) :], key) if step == path[: len(step)] else part

    return with_parts(type, change)


def _also_after(field: t.Field, key: str) -> t.Field:
    return replace(field, after=tuple(dict.fromkeys((*field.after, key))))
