"""Writes Python values as JSON: the defaults of Pydantic fields, and the values of examples."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import uuid
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from pydantic import AliasChoices, AliasPath, AnyUrl, BaseModel, RootModel
from pydantic.fields import FieldInfo
from pydantic_core import Url

from pastalang.values.json import JsonValue, write_json
from pastalang.values.pydantic.classes import shown, validator_name

# Factories that always make the same value, so that the default is a constant.
_CONSTANT_FACTORIES: Final = (list, dict, set, frozenset, tuple, str, int, float, bool)
_ADDRESSES: Final = (
    ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface,
    ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface,
)  # fmt: skip


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
        case datetime.timedelta():
            return _duration(value)
        case uuid.UUID() | PurePath() | AnyUrl() | Url():
            return str(value)
        case _ if isinstance(value, _ADDRESSES):
            return str(value)
        case RootModel():
            return json_of(value.root)
        case BaseModel():
            by_alias = type(value).model_config.get("validate_by_alias") is not False
            fields = type(value).model_fields
            return {
                _key(name, place if by_alias else None): json_of(getattr(value, name)) for name, place in fields.items()
            }
        case Mapping():
            return {str(json_of(key)): json_of(item) for key, item in value.items()}
        case list() | tuple() | deque():
            return [json_of(item) for item in value]
        case set() | frozenset():  # which have another order in each process
            return sorted(map(json_of, value), key=write_json)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            known = getattr(value, "__pydantic_fields__", {})
            names = [place.name for place in dataclasses.fields(value) if place.init]
            return {_key(name, known.get(name)): json_of(getattr(value, name)) for name in names}
        case _:
            return _refuse(value)


def _duration(value: datetime.timedelta) -> str:
    """In days and seconds: years and months, which Pydantic writes, have no one length."""
    size = abs(value)
    seconds = f"{size.seconds}.{size.microseconds:06}".rstrip("0").rstrip(".")
    return f"{'-' if value != size else ''}P{size.days}DT{seconds}S"


def _key(name: str, place: FieldInfo | None) -> str:
    """The key that the field is read by: the first of its aliases that names one."""
    alias = None if place is None else place.validation_alias
    for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
        steps = choice.path if isinstance(choice, AliasPath) else [choice]
        if len(steps) == 1 and isinstance(steps[0], str):
            return steps[0]
    return name


def _refuse(value: Any) -> JsonValue:
    raise Undefined(f"{shown(value)} has no JSON spelling")
