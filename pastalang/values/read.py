"""Reads the text of a hole, or of a whole JSON answer, as a typed value, or says why it cannot."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pastalang.program import types as t
from pastalang.values.describe import describe
from pastalang.values.fit import NO_SOURCES, find_mismatches, fit
from pastalang.values.json import JsonValue, NotJson, parse_json
from pastalang.values.lengths import NO_TYPES
from pastalang.values.mismatch import Mismatch


@dataclass(frozen=True, slots=True)
class Reading:
    """`value` is exact JSON (numbers are `int` or `Decimal`) with defaults filled in. It is valid only if it `fits`."""

    value: JsonValue
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.mismatches


def read(
    text: str,
    type: t.Type,
    types: Mapping[str, t.Type] = NO_TYPES,
    *,
    quoted: bool = True,
    sources: Mapping[str, str] = NO_SOURCES,
) -> Reading:
    """Reads JSON text, or with `quoted=False` a value in running text, where strings have no quotes."""
    if not quoted:
        return _read_running(text, type, types, sources)
    try:
        value = parse_json(text)
    except NotJson as problem:
        return Reading(None, (Mismatch((), str(problem)),))
    return Reading(*fit(type, value, types, sources=sources))


def to_python(type: t.Type, value: JsonValue, types: Mapping[str, t.Type] = NO_TYPES) -> Any:
    """The Python value of a value that fits: dates, UUIDs, tuples, and `float` for numbers. Objects stay `dict`s."""
    match type:
        case t.Number():
            return float(value)  # type: ignore[arg-type]
        case t.Temporal(kind=kind):
            return _moment(kind, str(value))
        case t.Uuid():
            return uuid.UUID(str(value))
        case t.Array(item=item) if isinstance(value, list):
            return [to_python(item, part, types) for part in value]
        case t.Tuple(items=items) if isinstance(value, list):
            return tuple(to_python(item, part, types) for item, part in zip(items, value, strict=True))
        case t.Map(value=item) if isinstance(value, dict):
            return {key: to_python(item, part, types) for key, part in value.items()}
        case t.Object(fields=fields) if isinstance(value, dict):
            return {field.key: to_python(field.type, value[field.key], types) for field in fields}
        case t.Union(arms=arms):
            fitting = next((arm for arm in arms if not find_mismatches(arm, value, types)), None)
            return to_plain(value) if fitting is None else to_python(fitting, value, types)
        case t.Named(name=name):
            return to_python(types[name], value, types)
        case _:
            return to_plain(value)


def to_plain(value: JsonValue) -> Any:
    """The value as `json.loads` returns it: decimals become floats."""
    match value:
        case Decimal():
            return float(value)
        case list():
            return [to_plain(item) for item in value]
        case dict():
            return {key: to_plain(item) for key, item in value.items()}
        case _:
            return value


def _moment(kind: t.Moment, text: str) -> datetime.date | datetime.datetime | datetime.time:
    match kind:
        case t.Moment.DATE:
            return datetime.date.fromisoformat(text)
        case t.Moment.DATETIME:
            return datetime.datetime.fromisoformat(text)
        case t.Moment.TIME:
            return datetime.time.fromisoformat(text)


def _read_running(text: str, type: t.Type, types: Mapping[str, t.Type], sources: Mapping[str, str]) -> Reading:
    """Strings have no quotes here, so an exact literal is tried first, then other JSON, then free text."""
    arms = _arms(type, types)
    literal = any(isinstance(arm, t.Literal) and arm.value == text for arm in arms if _is_text(arm))
    structured = t.Union(tuple(arm for arm in arms if not _is_text(arm)))
    if not literal and structured.arms:
        one = structured.arms[0] if len(structured.arms) == 1 else structured
        found = read(text, one, types, sources=sources)
        if found.fits or len(structured.arms) == len(arms):
            return found if found.fits or len(arms) > 1 else _without_jargon(found, type, text)
    return Reading(*fit(t.Union(arms) if len(arms) > 1 else arms[0], text, types, sources=sources))


def _arms(type: t.Type, types: Mapping[str, t.Type]) -> tuple[t.Type, ...]:
    match type:
        case t.Union(arms=arms):
            return tuple(inner for arm in arms for inner in _arms(arm, types))
        case _:
            return (type,)


def _is_text(arm: t.Type) -> bool:
    match arm:
        case t.Literal(value=value):
            return isinstance(value, str)
        case _:
            return isinstance(arm, t.String | t.Regex | t.Temporal | t.Uuid | t.Verbatim)


def _without_jargon(found: Reading, type: t.Type, text: str) -> Reading:
    """Running text is not JSON to its author: `twelve` for an integer is a wrong value, not "broken JSON"."""
    if found.mismatches and found.mismatches[0].reason.startswith("not JSON"):
        return Reading(None, (Mismatch((), f"expected {describe(type)}, found {text!r}"),))
    return found
