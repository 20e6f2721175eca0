"""Writes Python values as JSON: the defaults of Pydantic fields, and the values of examples."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from pastalang.values.json import JsonValue, write_json
from pastalang.values.pydantic.classes import shown, validator_name

# Factories that always make the same value, so that the default is a constant.
_CONSTANT_FACTORIES: Final = (list, dict, set, frozenset, tuple, str, int, float, bool)


class Undefined(ValueError):
    """Why a value has no JSON spelling that stands for it."""


def default_json(schema: Mapping[str, Any]) -> str:
    """The text of a `default` core schema."""
    if "default" in schema:
        return write_json(_default(schema["default"]))
    factory = schema["default_factory"]
    if factory in _CONSTANT_FACTORIES or (isinstance(factory, type) and issubclass(factory, BaseModel)):
        return write_json(_default(factory()))
    raise Undefined(f"its default is made by `{validator_name(factory)}`")


def _default(value: Any) -> JsonValue:
    try:
        return json_of(value)
    except Undefined as problem:
        raise Undefined(f"its default {problem}") from problem


def json_of(value: Any) -> JsonValue:
    """The value as JSON, with the keys that its model is read by. Raises `Undefined`."""
    match value:
        case Enum():
            return json_of(value.value)
        case Decimal() if not value.is_finite():
            return _refuse(value)
        case None | bool() | int() | str() | Decimal():
            return value
        case float():
            return Decimal(repr(value)) if value == value and abs(value) != float("inf") else _refuse(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case BaseModel():
            fields = type(value).model_fields
            return {
                (alias if isinstance(alias := place.validation_alias, str) else name): json_of(getattr(value, name))
                for name, place in fields.items()
            }
        case Mapping():
            return {str(json_of(key)): json_of(item) for key, item in value.items()}
        case list() | tuple() | deque() | set() | frozenset():
            return [json_of(item) for item in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {place.name: json_of(getattr(value, place.name)) for place in dataclasses.fields(value)}
        case _:
            return _refuse(value)


def _refuse(value: Any) -> JsonValue:
    raise Undefined(f"{shown(value)} has no JSON spelling")
