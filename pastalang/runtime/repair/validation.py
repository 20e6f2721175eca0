"""A finished value against the user's Pydantic model: the value comes in, an instance or objections go out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pastalang.runtime.errors import ValidatorFailed
from pastalang.runtime.repair.blame import fields_read
from pastalang.values.json_text import JsonValue
from pastalang.values.pydantic_model import validate_value

_SAYS = re.compile(r"^(Value error|Assertion failed), ")


@dataclass(frozen=True, slots=True)
class Objection:
    """`path` is the validator's; `fields` are the keys below it that the validator reads, where that is known."""

    path: tuple[str | int, ...]
    reason: str
    fields: tuple[str, ...] = ()


def validate(model: type[BaseModel], value: JsonValue) -> BaseModel | tuple[Objection, ...]:
    """Raises `ValidatorFailed` where a validator breaks instead of judging."""
    try:
        try:
            found: object = validate_value(model, value)
        except ValidationError as problem:  # which puts the messages together only now, and may fail at it
            return tuple(_objection(error) for error in problem.errors(include_url=False))
    except Exception as problem:  # validators are programs of the caller and raise what they like
        raise ValidatorFailed(
            f"a validator of `{model.__name__}` raised {type(problem).__name__}: {problem}"
        ) from problem
    if not isinstance(found, model):
        raise ValidatorFailed(f"a validator of `{model.__name__}` returned {type(found).__name__} instead of the model")
    return found


def _objection(error: ErrorDetails) -> Objection:
    raised = error.get("ctx", {}).get("error")
    fields = fields_read(raised) if isinstance(raised, Exception) else ()
    return Objection(tuple(error["loc"]), _SAYS.sub("", error["msg"]) or "not accepted", fields)
