"""Keys with a default, as `extract` asks for them: the model may write null, and the value takes its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pastalang.program import types as t
from pastalang.program.visit import with_parts
from pastalang.values.conversion import Converted
from pastalang.values.fit import find_mismatches


def leaving_out_defaults(found: Converted) -> Converted:
    """The type with `| null = absent` for each key that has a default which its type could not say by null.

    A key with a single value stays, for there is nothing to invent, and so does a list or a map, which may be empty.
    """
    types = {name: _leaving_out(one, found.types) for name, one in found.types.items()}
    return replace(found, type=_leaving_out(found.type, found.types), types=types)


def _leaving_out(type: t.Type, types: Mapping[str, t.Type]) -> t.Type:
    changed = with_parts(type, lambda _, part: _leaving_out(part, types))
    if not isinstance(changed, t.Object):
        return changed
    return replace(changed, fields=tuple(_optional(one, types) for one in changed.fields))


def _optional(one: t.Field, types: Mapping[str, t.Type]) -> t.Field:
    has_value = one.default is not None and not one.default.is_absent
    says_it = isinstance(one.type, t.Literal | t.Array | t.Map) or not find_mismatches(one.type, None, types)
    return replace(one, type=_or_null(one.type), default=t.ABSENT) if has_value and not says_it else one


def _or_null(type: t.Type) -> t.Type:
    if isinstance(type, t.Union) and type.discriminator is None:
        return replace(type, arms=(*type.arms, t.Null()))
    return t.Union((type, t.Null()))
