"""Plans as JSON and back. The same plan gives the same bytes; what is read is checked before it is believed.

Every record is an object with its `kind`; fields that have their default are left out, tuples are lists, numbers
with a point are texts under the kind `Decimal`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, get_args, get_type_hints

from pastalang.plan import plan as plans
from pastalang.plan.verify import breaches
from pastalang.program import program, types
from pastalang.source import Span

VERSION: Final = 1

_RECORDS: Final[tuple[type, ...]] = (
    *(found for found in vars(plans).values() if isinstance(found, type) and found.__module__ == plans.__name__),
    *(found for found in vars(types).values() if isinstance(found, type) and found.__module__ == types.__name__),
    *(program.Input, program.ListOf, program.RecordOf, Span),
)  # fmt: skip


class UnreadablePlan(ValueError):
    """The text is no plan of this version, or one that breaks the rules."""


def to_json(plan: plans.Plan) -> str:
    """One line per branch, so that tools which compare lines have something to compare."""
    record = encode(plan)
    branches = record.pop("branches")
    head = json.dumps(record, ensure_ascii=False, indent=1)
    lines = ",\n  ".join(json.dumps(branch, ensure_ascii=False) for branch in branches)
    return f'{head[:-2]},\n "branches": [\n  {lines}\n ]\n}}\n'


def from_json(text: str) -> plans.Plan:
    try:
        found = decode(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError, InvalidOperation) as error:
        raise UnreadablePlan(f"this is not a plan: {error}") from error
    if not isinstance(found, plans.Plan):
        raise UnreadablePlan(f"this is a {type(found).__name__}, not a plan")
    if found.version != VERSION:
        raise UnreadablePlan(f"this is a plan of version {found.version}; version {VERSION} can be read")
    _check(found)
    return found


def encode(value: Any) -> Any:
    """Any part of a plan as JSON data."""
    match value:
        case enum.Enum():
            return value.value
        case Decimal():
            return {"kind": "Decimal", "value": str(value)}
        case tuple():
            return [encode(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            kept = {field.name: getattr(value, field.name) for field in fields(value)}
            written = {field.name: encode(kept[field.name]) for field in fields(value) if not _is_default(field, kept)}
            return {"kind": type(value).__name__, **written}
        case _:
            return value


def decode(data: Any) -> Any:
    match data:
        case {"kind": "Decimal", "value": str(value)}:
            return Decimal(value)
        case {"kind": str(kind), **rest}:
            return _record(kind, {str(name): value for name, value in rest.items()})
        case list():
            return tuple(decode(item) for item in data)
        case str() | int() | None:  # bool is an int
            return data
        case _:
            raise ValueError(f"{type(data).__name__} has no place in a plan")


def _record(kind: str, data: Mapping[str, Any]) -> Any:
    record = _records().get(kind)
    if record is None:
        raise ValueError(f"there is no {kind!r}")
    enums = _enums_of(record)
    values = {name: _enum(enums[name], data[name]) if name in enums else decode(data[name]) for name in data}
    return record(**values)


def _enum(kind: type[enum.Enum], data: Any) -> Any:
    return kind(data) if isinstance(data, str) else decode(data)


def _is_default(field: Field[Any], kept: Mapping[str, Any]) -> bool:
    if field.name == "version" or field.default is MISSING:
        return False
    value = kept[field.name]
    return type(value) is type(field.default) and bool(value == field.default)


@cache
def _records() -> Mapping[str, type]:
    return {record.__name__: record for record in _RECORDS if is_dataclass(record)}


@cache
def _enums_of(record: type) -> Mapping[str, type[enum.Enum]]:
    """The fields that hold a word of an enumeration (or, beside that, a record)."""
    found = {}
    for name, hint in get_type_hints(record).items():
        for kind in (hint, *get_args(hint)):
            if isinstance(kind, type) and issubclass(kind, enum.Enum):
                found[name] = kind
    return found


def _check(plan: plans.Plan) -> None:
    try:
        broken = next(breaches(plan), None)
    except (AttributeError, TypeError, IndexError, KeyError, AssertionError) as error:
        raise UnreadablePlan(f"this plan does not hold together: {error}") from error
    if broken is not None:
        raise UnreadablePlan(f"this plan breaks a rule ({broken[0]}): {broken[1]}")
