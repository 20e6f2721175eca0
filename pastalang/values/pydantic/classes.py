"""What the classes of a model say of themselves: names, descriptions, and validators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any


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
