"""What the classes of a model declare: names, descriptions and validators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pastalang.program import types as t


def fields_and_checks(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The schema of a model's fields, and the names of the validators around it."""
    checks: list[str] = []
    while schema["type"].startswith("function-") and "schema" in schema:
        checks.append(validator_name(schema["function"]["function"]))
        schema = schema["schema"]
    return schema, checks


def class_name(cls: Any) -> str:
    return re.sub(r"\W+", "_", cls.__name__).strip("_")


def documentation(cls: Any) -> str | None:
    """The first paragraph of the docstring, unless a dataclass has generated it."""
    text = cls.__doc__ if isinstance(cls.__doc__, str) else None
    if not text or text.startswith(f"{cls.__name__}("):
        return None
    return " ".join(text.strip().split("\n\n")[0].split()) or None


def field_description(cls: Any, name: str, place: Mapping[str, Any]) -> str | None:
    info = getattr(cls, "model_fields", {}).get(name)
    if info is not None:
        return info.description or None
    updates = place.get("metadata", {}).get("pydantic_js_updates", {})
    return updates.get("description") or None


def validator_name(function: Any) -> str:
    """The name of a function, or of what it calls or is an instance of."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def shown(value: object) -> str:
    """A value as Python writes it, without its address in memory, which differs from run to run."""
    return re.sub(" at 0x[0-9a-fA-F]+", "", repr(value))


def with_length(type: t.Type, function: Any) -> t.Type | None:
    """The type within a limit of length that Pydantic checks with a function of its own; None for other functions."""
    if not isinstance(function, partial) or not str(function.func.__module__).startswith("pydantic."):
        return None
    name, given = function.func.__name__, function.keywords
    least = given.get("min_length") if name == "min_length_validator" else None
    most = given.get("max_length") if name == "max_length_validator" else None
    if (least is None and most is None) or not isinstance(type, t.Array | t.Map):
        return None
    if least is not None:
        return replace(type, min_items=max(least, type.min_items))
    return replace(type, max_items=most if type.max_items is None or most is None else min(most, type.max_items))


def why_unhashable(schema: Mapping[str, Any] | None, definitions: Mapping[str, Mapping[str, Any]]) -> str | None:
    """What in the items of a set has no hash in Python, so that no value of the set can be made; None if all has."""
    if schema is None or schema["type"] == "any":
        return "any value, which may be a list or an object,"
    match schema["type"]:
        case "definition-ref":
            found = definitions.get(schema["schema_ref"])
            return None if found is None else why_unhashable(found, definitions)
        case "list" | "dict" | "set" | "deque":
            return f"a {schema['type']}"
        case "typed-dict":
            return "a dict"
        case "model" | "dataclass":
            cls = schema["cls"]
            return None if cls.__hash__ is not None else f"`{cls.__name__}`, which has no hash,"
        case "tuple":
            parts = schema["items_schema"]
        case "union":
            parts = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        case "tagged-union":
            parts = [choice for choice in schema["choices"].values() if isinstance(choice, Mapping)]
        case _:
            parts = [schema["schema"]] if isinstance(schema.get("schema"), Mapping) else []
    return next((why for part in parts if (why := why_unhashable(part, definitions)) is not None), None)
