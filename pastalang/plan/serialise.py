"""Plans as JSON and back, and the fingerprint that identifies a plan.

The same plan gives the same bytes, and a plan is verified after it is read. Every record is an object that names its
kind under `$`. Fields that have their default are left out, tuples are lists, and members of enumerations and
decimals have their value under `is`.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NewType, Union, get_args, get_origin, get_type_hints

from pastalang.limits import MAX_BRANCHES, MAX_HOLE_TOKENS, MAX_PLAN_NESTING
from pastalang.plan import branches
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.plan.verify import breaches
from pastalang.program import pieces, program, types
from pastalang.source import Span
from pastalang.values.json import check_nesting

VERSION: Final = 1
MAX_RESERVE: Final = MAX_BRANCHES * MAX_HOLE_TOKENS

_RECORDS: Final[tuple[type, ...]] = (
    *(found for found in vars(branches).values() if isinstance(found, type) and found.__module__ == branches.__name__),
    Plan,
    *(found for found in vars(types).values() if isinstance(found, type) and found.__module__ == types.__name__),
    *(program.Input, program.ListOf, program.RecordOf, program.OneOf, program.InputKind),
    *(program.Role, program.History, Span),
    *(pieces.For, pieces.If, pieces.InputValue, pieces.ItemNumber, pieces.Text),
)  # fmt: skip


class UnreadablePlan(ValueError):
    """The text is not a plan of this version, or the plan breaks the rules."""


def to_json(plan: Plan) -> str:
    """The plan as JSON, with a line for each branch, so that line-based tools can compare plans."""
    record = encode(plan)
    branches = record.pop("branches")
    head = json.dumps(record, ensure_ascii=False, indent=1)
    lines = ",\n  ".join(json.dumps(branch, ensure_ascii=False) for branch in branches)
    return f'{head[:-2]},\n "branches": [\n  {lines}\n ]\n}}\n'


def from_json(text: str) -> Plan:
    try:
        check_nesting(text, MAX_PLAN_NESTING)
        data = json.loads(text, parse_constant=_refuse)
        _check_version(data)
        found = decode(data)
    except UnreadablePlan:
        raise
    except RecursionError as error:
        raise UnreadablePlan("this is not a plan: brackets nest deeper than those of a plan") from error
    except InvalidOperation as error:
        raise UnreadablePlan("this is not a plan: one of its decimals is not a number") from error
    except ValueError as error:
        raise UnreadablePlan(f"this is not a plan: {error}") from error
    if not isinstance(found, Plan):
        kind = f"a {type(found).__name__}" if is_dataclass(found) else "JSON of another kind"
        raise UnreadablePlan(f"this is {kind}, not a plan")
    _check(found)
    return found


def _check_version(data: Any) -> None:
    """Before anything else: a plan of another version may have records that this one does not know."""
    match data:
        case {"$": "Plan", "version": int(version)} if version != VERSION:
            raise UnreadablePlan(f"this is a plan of version {version}; version {VERSION} can be read")


def encode(value: Any) -> Any:
    """Any part of a plan as JSON data."""
    match value:
        case enum.Enum():
            return {"$": type(value).__name__, "is": value.value}
        case Decimal():
            return {"$": "Decimal", "is": str(value)}
        case tuple():
            return [encode(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            kept = {field.name: getattr(value, field.name) for field in fields(value)}
            written = {field.name: encode(kept[field.name]) for field in fields(value) if not _is_default(field, kept)}
            return {"$": _kind(type(value)), **written}
        case _:
            return value


def decode(data: Any) -> Any:
    match data:
        case {"$": "Decimal", "is": str(value)}:
            return _finite(Decimal(value))
        case {"$": str(kind), "is": value}:
            return _word(kind, value)
        case {"$": str(kind), **rest}:
            return _record(kind, {str(name): value for name, value in rest.items()})
        case list():
            return tuple(decode(item) for item in data)
        case str() | int() | float() | None:  # bool is an int
            return data
        case _:
            raise ValueError("an object does not say what it is: its key `$` is missing")


def _record(kind: str, data: Mapping[str, Any]) -> Any:
    record = _records().get(kind)
    if record is None:
        raise ValueError(f"an object has the kind {kind!r}, which plans do not have")
    known = {field.name: field for field in fields(record) if field.init and not field.metadata.get("bound")}
    for name in data:
        if name not in known:
            raise ValueError(f"a {kind} has no `{name}`")
    for name, field in known.items():
        if name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"the `{name}` of a {kind} is missing")
    made = {name: decode(data[name]) for name in data}
    wrong = wrong_field(record, made)
    if wrong is not None:
        raise ValueError(f"the `{wrong}` of a {kind} is of another type")
    try:
        return record(**made)
    except (TypeError, AttributeError, KeyError, AssertionError) as error:
        raise ValueError(f"the parts of a {kind} do not fit together: {error or 'a value is not allowed'}") from error


def _word(kind: str, value: Any) -> enum.Enum:
    words = _enums().get(kind)
    if words is None:
        raise ValueError(f"an object has the kind {kind!r}, which plans do not have")
    known = [word.value for word in words]
    if value not in known:
        raise ValueError(f"a {kind} is one of {', '.join(map(str, known))}")
    return words(value)


def _finite(number: Decimal) -> Decimal:
    if not number.is_finite():
        raise InvalidOperation
    return number


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _is_default(field: Field[Any], kept: Mapping[str, Any]) -> bool:
    if field.name == "version" or field.default is MISSING:
        return False
    value = kept[field.name]
    return type(value) is type(field.default) and bool(value == field.default)


def _kind(record: type) -> str:
    """The name of a record. The pieces of messages share some names with segments."""
    return f"message {record.__name__}" if record.__module__ == pieces.__name__ else record.__name__


@cache
def _records() -> Mapping[str, type]:
    return {_kind(record): record for record in _RECORDS if is_dataclass(record)}


@cache
def _enums() -> Mapping[str, type[enum.Enum]]:
    return {kind.__name__: kind for kind in _RECORDS if issubclass(kind, enum.Enum)}


def _check(plan: Plan) -> None:
    try:
        too_many = next(_numbers_out_of_bounds(plan), None)
        if too_many is not None:
            raise UnreadablePlan(f"this is not a plan: {too_many}")
        broken = next(breaches(plan), None)
    except (AttributeError, TypeError, IndexError, KeyError, AssertionError) as error:
        raise UnreadablePlan(f"the parts of this plan do not fit together: {error}") from error
    if broken is not None:
        raise UnreadablePlan(f"this plan breaks a rule ({broken[0]}): {broken[1]}")


def _numbers_out_of_bounds(plan: Plan) -> Iterator[str]:
    """Numbers that no program can ask for. With them, forecasts and runs would take forever."""
    for _, _, segment in walk_plan(plan):
        match segment:
            case branches.Hole(field=field, max_tokens=most) if not 0 < most <= MAX_HOLE_TOKENS:
                yield f"`{field}` may take {most:,} tokens; the limits are 1 and {MAX_HOLE_TOKENS:,}"
            case branches.Repeat(field=field, minimum=least, maximum=most) if not 0 <= least <= most <= MAX_BRANCHES:
                yield f"`{field}` may have {least:,} to {most:,} items; the limits are 0 and {MAX_BRANCHES:,}"
            case branches.Each(maximum=most) if not 0 <= most <= MAX_BRANCHES:
                yield f"a fork may have {most:,} items; the limits are 0 and {MAX_BRANCHES:,}"
    for number, branch in enumerate(plan.branches):
        if branch.id != number or (branch.parent is not None and not 0 <= branch.parent < number):
            yield f"`{branch.name}` is out of order: branches are numbered from 0, each after its parent"
        if not 0 <= branch.reserve <= MAX_RESERVE:
            yield f"`{branch.name}` keeps {branch.reserve:,} positions free; the limits are 0 and {MAX_RESERVE:,}"


def wrong_field(record: type, values: Mapping[str, Any]) -> str | None:
    """The name of a field whose value is of another type; None where all fit."""
    hints = _hints(record)
    return next((name for name, value in values.items() if not _fits(value, hints[name])), None)


@cache
def _hints(record: type) -> Mapping[str, Any]:
    return get_type_hints(record)


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        return _fits(value, hint.__supertype__)
    if origin is Union or origin is UnionType:
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and _fits_places(value, parts)
    if hint is None or hint is NoneType:
        return value is None
    if hint is int or hint is float:
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _fits_places(value: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return all(_fits(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(_fits, value, parts))


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Each part changes with what it names and with nothing else. A comment changes `program` only."""

    program: str  # the source text
    types: str  # what the answer and its holes may hold
    policy: str  # mode, branches, views, positions

    def __str__(self) -> str:
        return f"{self.program}-{self.types}-{self.policy}"


def fingerprint(plan: Plan) -> Fingerprint:
    record = without_places(encode(plan))
    types = {name: record.get(name) for name in ("inputs", "output", "types")}
    policy = {name: record.get(name) for name in ("version", "mode", "auto", "branches")}
    return Fingerprint(_name(plan.source_text), _name(types), _name(policy))


def without_places(data: Any) -> Any:
    """Encoded parts of a plan without the spans of its source."""
    if isinstance(data, list):
        return [without_places(item) for item in data]
    if isinstance(data, dict):
        return {key: without_places(value) for key, value in data.items() if key != "span"}
    return data


def _name(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
