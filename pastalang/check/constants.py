"""From a value written in a program to its canonical JSON text, and whether it fits a type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias, assert_never

from pastalang.check.numbers import is_multiple, literal_number
from pastalang.grammar import nodes
from pastalang.program import types as t
from pastalang.program.regex import RegexError, matches, parse_regex
from pastalang.values.formats import FORMATS, MOMENTS, UUID

LONGEST_MATCHED = 2_000  # characters; a longer default is not compared with its pattern

Json: TypeAlias = "str | int | Decimal | bool | list[Json] | dict[str, Json] | None"


def constant(value: nodes.Value) -> Json | None:
    """The JSON value, wrapped so that null is not nothing: call `is_constant` first."""
    match value:
        case nodes.StringValue(text=text):
            return text
        case nodes.NumberValue():
            return literal_number(value)
        case nodes.BooleanValue(value=flag):
            return flag
        case nodes.ListValue(items=items):
            return [constant(item) for item in items]
        case nodes.RecordValue(entries=entries):
            return {key.text: constant(item) for key, item in entries}
        case nodes.NullValue() | nodes.RegexValue() | nodes.RangeValue() | nodes.PathValue():
            return None
        case _:
            assert_never(value)


def is_constant(value: nodes.Value) -> bool:
    """Whether the value is data; a name, a range or a regular expression is not."""
    match value:
        case nodes.ListValue(items=items):
            return all(map(is_constant, items))
        case nodes.RecordValue(entries=entries):
            keys = [key.text for key, _ in entries]
            return len(set(keys)) == len(keys) and all(is_constant(item) for _, item in entries)
        case nodes.NumberValue():
            return literal_number(value) is not None
        case _:
            return isinstance(value, nodes.StringValue | nodes.BooleanValue | nodes.NullValue)


def json_text(value: Json) -> str:
    """Canonical JSON: exact numbers, no spaces, keys as written."""
    match value:
        case Decimal():
            return str(value)
        case list():
            return f"[{','.join(map(json_text, value))}]"
        case dict():
            return "{" + ",".join(f"{json_text(key)}:{json_text(item)}" for key, item in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def find_misfit(value: Json, type: t.Type, types: Mapping[str, t.Type]) -> str | None:
    """Why the value does not fit the type, in a few words; None where it fits or nothing can be said."""
    match type:
        case t.Anything() | t.Schema() | t.Verbatim():
            return None
        case t.Named(name=name):
            return find_misfit(value, types[name], types) if name in types else None
        case t.Union(arms=arms):
            misfits = [find_misfit(value, arm, types) for arm in arms]
            return None if None in misfits else f"{_shown(value)} is none of its alternatives"
        case t.Literal(value=wanted):
            return None if t.Literal(wanted) == _as_literal(value) else f"{_shown(value)} is not {_shown(wanted)}"
        case t.Null():
            return None if value is None else f"{_shown(value)} is not null"
        case t.Boolean():
            return None if isinstance(value, bool) else f"{_shown(value)} is not true or false"
        case t.Integer() | t.Number():
            return _number_misfit(value, type)
        case t.String() | t.Regex() | t.Temporal() | t.Uuid():
            return _text_misfit(value, type)
        case t.Array() | t.Tuple():
            return _list_misfit(value, type, types)
        case t.Map() | t.Object():
            return _record_misfit(value, type, types)
        case _:
            assert_never(type)


def _as_literal(value: Json) -> t.Literal | None:
    return None if isinstance(value, list | dict) else t.Literal(value)


def _shown(value: Json) -> str:
    text = json_text(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _number_misfit(value: Json, type: t.Integer | t.Number) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return f"{_shown(value)} is not a number"
    if isinstance(type, t.Integer) and value != int(value):
        return f"{_shown(value)} is not a whole number"
    if type.minimum is not None and value < type.minimum:
        return f"{_shown(value)} is less than {type.minimum}"
    if type.maximum is not None and value > type.maximum:
        return f"{_shown(value)} is more than {type.maximum}"
    if type.exclusive_minimum is not None and value <= type.exclusive_minimum:
        return f"{_shown(value)} is not above {type.exclusive_minimum}"
    if type.exclusive_maximum is not None and value >= type.exclusive_maximum:
        return f"{_shown(value)} is not below {type.exclusive_maximum}"
    if type.multiple_of is not None and not is_multiple(value, type.multiple_of):
        return f"{_shown(value)} is not a multiple of {type.multiple_of}"
    return None


def _text_misfit(value: Json, type: t.String | t.Regex | t.Temporal | t.Uuid) -> str | None:
    if not isinstance(value, str):
        return f"{_shown(value)} is not a text"
    match type:
        case t.String():
            if len(value) < type.min_chars:
                return f"{_shown(value)} is shorter than {type.min_chars} characters"
            if type.max_chars is not None and len(value) > type.max_chars:
                return f"{_shown(value)} is longer than {type.max_chars} characters"
            if type.pattern is not None and not _matches(type.pattern, value):
                return f"{_shown(value)} does not match /{type.pattern}/"
            if type.format is not None and type.format in FORMATS and not _matches(FORMATS[type.format].pattern, value):
                return f"{_shown(value)} is not {FORMATS[type.format].meaning}"
            return None
        case t.Regex(pattern=pattern):
            return None if _matches(pattern, value) else f"{_shown(value)} does not match /{pattern}/"
        case t.Temporal(kind=kind):
            return None if _matches(MOMENTS[kind], value) else f"{_shown(value)} is not a {kind.value} in ISO 8601"
        case t.Uuid():
            return None if _matches(UUID, value) else f"{_shown(value)} is not a UUID"
        case _:
            assert_never(type)


def _matches(pattern: str, text: str) -> bool:
    if len(text) > LONGEST_MATCHED:
        return True
    try:
        return matches(parse_regex(pattern), text)
    except RegexError:
        return True  # the pattern has its own finding


def _list_misfit(value: Json, type: t.Array | t.Tuple, types: Mapping[str, t.Type]) -> str | None:
    if not isinstance(value, list):
        return f"{_shown(value)} is not a list"
    match type:
        case t.Tuple(items=items):
            if len(value) != len(items):
                return f"it has {len(value)} places, not {len(items)}"
            pairs = list(zip(value, items, strict=True))
        case t.Array(item=item):
            if len(value) < type.min_items:
                return f"it has {len(value)} items, at least {type.min_items} are needed"
            if type.max_items is not None and len(value) > type.max_items:
                return f"it has {len(value)} items, at most {type.max_items} are allowed"
            if type.unique and len({json_text(entry) for entry in value}) < len(value):
                return "two of its items are equal"
            pairs = [(entry, item) for entry in value]
    return next((found for entry, wanted in pairs if (found := find_misfit(entry, wanted, types)) is not None), None)


def _record_misfit(value: Json, type: t.Map | t.Object, types: Mapping[str, t.Type]) -> str | None:
    if not isinstance(value, dict):
        return f"{_shown(value)} is not an object"
    if isinstance(type, t.Map):
        return _map_misfit(value, type, types)
    fields = {field.key: field for field in type.fields}
    for key in value:
        if key not in fields:
            return f'it has a key "{key}" that the type does not have'
    for field in type.fields:
        if field.key in value:
            misfit = find_misfit(value[field.key], field.type, types)
            if misfit is not None:
                return f'in "{field.key}": {misfit}'
        elif field.default is None:
            return f'the key "{field.key}" is missing'
    return None


def _map_misfit(value: dict[str, Json], type: t.Map, types: Mapping[str, t.Type]) -> str | None:
    if len(value) < type.min_items or (type.max_items is not None and len(value) > type.max_items):
        return f"it has {len(value)} entries"
    for key, entry in value.items():
        if type.key_pattern is not None and not _matches(type.key_pattern, key):
            return f'its key "{key}" does not match /{type.key_pattern}/'
        misfit = find_misfit(entry, type.value, types)
        if misfit is not None:
            return misfit
    return None
