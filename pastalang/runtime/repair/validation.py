"""Validates an answer against its type and the caller's Pydantic model, and finds the fields that are to blame.

`Policy` holds the options of a call that concern finished answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any, Final, Protocol, TypeAlias, get_args

from pydantic import AliasChoices, AliasPath, BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from pastalang.plan.plan import Plan
from pastalang.program.types import SamplingBounds
from pastalang.runtime.call import Options
from pastalang.runtime.errors import BadInputs, ValidatorFailed
from pastalang.values.json import JsonValue, Node
from pastalang.values.paths import Mismatch
from pastalang.values.pydantic.exact import keys_by_name
from pastalang.values.pydantic.from_core import adapter_of, name_of_type, validate_value

CHECK_REPAIRS: Final = 3  # unless the call says how many


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens to a finished answer.

    model          the type that it is validated against; None if it is not validated
    repair         how often a field that the model objects to is decoded again
    checks         how often a field is decoded again whose value does not pass the check of its schema
    retry_below    fields with a lower probability are decoded again, once or as often as `repair` says
    keep_invalid   what is still wrong then is marked in the result; otherwise `Invalid` is raised
    """

    model: Validator | None
    repair: int
    retry_below: float | None
    keep_invalid: bool
    checks: int

    @property
    def retries(self) -> int:
        return 0 if self.retry_below is None else max(self.repair, 1)


def policy_for(plan: Plan, options: Options, *, has_checks: bool) -> Policy | None:
    """None if there is nothing to validate. Raises `BadInputs` if the options do not go together.

    `has_checks`: whether the answer holds values of schemas that are checked after decoding.
    """
    model: Any = options.model
    repair, retry_below, keep_invalid = options.repair, options.retry_below, options.keep_invalid
    if model is None and not repair and retry_below is None and not keep_invalid and not has_checks:
        return None
    validator = None if model is None else validator_of(model)
    if repair is not None and (isinstance(repair, bool) or not isinstance(repair, int) or repair < 0):
        raise BadInputs(f"`repair` is a number of attempts, 0 or more, not {repair!r}")
    if retry_below is not None and not SamplingBounds(1, is_above=True).accepts(retry_below):
        raise BadInputs(f"`retry_below` is a probability above 0 and up to 1, not {retry_below!r}")
    if model is None and retry_below is None and not has_checks:
        raise BadInputs("without `model` nothing is checked, so there is nothing to repair or to keep")
    if plan.output is None:
        raise BadInputs(f"`{plan.template}` writes running text; only a JSON answer is validated and repaired")
    return Policy(validator, repair or 0, retry_below, keep_invalid, CHECK_REPAIRS if repair is None else repair)


_MISFITS: Final = {*get_args(ErrorType)} - {"value_error", "assertion_error"}  # the value does not fit its type
_PREFIX = re.compile(r"^(Value error|Assertion failed), ")  # by pydantic, before the message of a validator


class Checked(Protocol):
    """A JSON answer, with its numbers as they are written. `mismatches` say why it is no value of its type."""

    @property
    def written(self) -> JsonValue: ...

    @property
    def mismatches(self) -> Sequence[Mismatch]: ...


@dataclass(frozen=True, slots=True)
class CheckedValue:
    """A `Checked` answer that no engine of this process has laid out."""

    written: JsonValue
    mismatches: Sequence[Mismatch]


@dataclass(frozen=True, slots=True)
class Objection:
    """One error of the type or the model. `fields` are the keys below `path` that the validator reads, if known."""

    path: tuple[str | int, ...]
    reason: str
    fields: tuple[str, ...] = ()

    def nodes(self, tree: Node) -> list[Node]:
        """The parts of the answer that it is about."""
        node = tree.at(self.path)
        return [node.parts[key] for key in self.fields if key in node.parts] or [node]


@dataclass(frozen=True, slots=True)
class Validator:
    """A type that validates answers: a Pydantic model, or any other type that Pydantic knows."""

    name: str
    model: Any
    adapter: TypeAdapter[Any]


def validator_of(model: Any) -> Validator:
    """Raises `BadInputs` for what Pydantic cannot validate with."""
    if isinstance(model, BaseModel):
        raise BadInputs(f"`model` is a class, not an instance of one; write `model={type(model).__name__}`")
    if isinstance(model, str | os.PathLike):
        raise BadInputs(
            f"`model` is the type of the answer, not {model!r}; a language model is loaded with `pastalang.Engine.load`"
        )
    try:
        return Validator(name_of_type(model), model, adapter_of(model))
    except (PydanticUserError, TypeError, NameError) as problem:
        raise BadInputs(f"`model` is a type that Pydantic can validate, not {model!r:.200}") from problem


def judge(answer: Checked, validator: Validator | None) -> tuple[Any, tuple[Objection, ...]]:
    """The objections to an answer: to its type first, then those of the validator; otherwise the validated value."""
    if answer.mismatches:
        return None, tuple(Objection(mismatch.path, mismatch.reason) for mismatch in answer.mismatches)
    return (None, ()) if validator is None else validate(validator, answer.written)


def validate(validator: Validator, value: JsonValue) -> tuple[Any, tuple[Objection, ...]]:
    """The validated value and no objections, or the objections.

    Raises `ValidatorFailed` if a validator fails instead of judging.
    """
    model = validator.model
    try:
        try:
            found: object = validate_value(validator.adapter, value)
        except ValidationError as problem:  # `errors` only now builds the messages, which may fail
            return None, tuple(_objections(problem.errors(include_url=False), value, validator))
    except Exception as problem:  # validators are programs of the caller and raise anything
        raise ValidatorFailed(f"a validator of `{validator.name}` raised {_said(problem)}") from problem
    if isinstance(model, type) and issubclass(model, BaseModel) and not isinstance(found, model):
        raise ValidatorFailed(f"a validator of `{validator.name}` returned {type(found).__name__} instead of the model")
    return found, ()


def _said(problem: Exception) -> str:
    """The class of an exception, and its text if that can be made."""
    try:
        return f"{type(problem).__name__}: {problem}"
    except Exception:
        return type(problem).__name__


_Steps: TypeAlias = tuple[str | int, ...]


def _objections(errors: Sequence[ErrorDetails], value: JsonValue, validator: Validator) -> Iterator[Objection]:
    """Of a union, Pydantic lists the errors of every arm. Where nothing but validators object to one of them, that one
    was meant, and what the others lack is left out.
    """
    keys, at_names = keys_by_name(validator.adapter.core_schema)

    def key_of(step: str | int, value: dict[str, Any]) -> str | int:
        found = keys.get(str(step), ())
        return next((key for key in ((*found, step) if at_names else (step, *found)) if key in value), step)

    ways = [_way(error, value, key_of) for error in errors]
    fits: dict[_Steps, bool] = {}
    for error, (_, arms) in zip(errors, ways, strict=True):
        for arm in arms:
            fits[arm] = fits.get(arm, True) and error["type"] not in _MISFITS
    meant = {arm[:-1] for arm, is_meant in fits.items() if is_meant}
    for error, (path, arms) in zip(errors, ways, strict=True):
        if all(fits[arm] or arm[:-1] not in meant for arm in arms):
            raised = error.get("ctx", {}).get("error")
            fields = fields_read(raised) if isinstance(raised, Exception) else ()
            yield Objection(path, _PREFIX.sub("", error["msg"]) or "not accepted", fields)


def _way(
    error: ErrorDetails, value: Any, key_of: Callable[[str | int, dict[str, Any]], str | int]
) -> tuple[_Steps, list[_Steps]]:
    """Where in the answer an error is, or the key that is missing there; and where its `loc` names no part, but the arm
    of a union or a function. A field may be named as in Python.
    """
    path: _Steps = ()
    arms: list[_Steps] = []
    for number, named in enumerate(error["loc"], start=1):
        step = key_of(named, value) if isinstance(value, dict) else named
        is_part = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if is_part:
            value = value[step]
        if is_part or (number == len(error["loc"]) and error["type"] == "missing"):
            path = (*path, step)
        else:
            arms.append(error["loc"][:number])
    return path, arms


def fields_read(raised: Exception) -> tuple[str, ...]:
    """The JSON keys that the validator which raised may have read.

    They are guessed from the names and strings in its code, so names of other things are among them.
    """
    words: dict[str, None] = {}
    names: dict[str, tuple[str, ...]] = {}
    for code, variables in _frames(raised.__traceback__):
        words.update(dict.fromkeys(_words_in(code)))
        for value in variables:
            names |= _keys_by_name(value)
    return tuple(dict.fromkeys(key for word in words for key in (word, *names.get(word, ()))))


def _frames(traceback: TracebackType | None) -> Iterator[tuple[CodeType, tuple[Any, ...]]]:
    while traceback is not None:
        frame = traceback.tb_frame
        yield frame.f_code, tuple(frame.f_locals.values())
        traceback = traceback.tb_next


def _words_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):  # a comprehension or a lambda inside
            yield from _words_in(constant)


def _keys_by_name(value: Any) -> dict[str, tuple[str, ...]]:
    model = value if isinstance(value, type) else type(value)
    if not issubclass(model, BaseModel):
        return {}
    return {name: _aliases(field.validation_alias or field.alias) for name, field in model.model_fields.items()}


def _aliases(alias: str | AliasPath | AliasChoices | None) -> tuple[str, ...]:
    match alias:
        case str():
            return (alias,)
        case AliasPath(path=[str(first), *_]):
            return (first,)
        case AliasChoices(choices=choices):
            return tuple(key for choice in choices for key in _aliases(choice))
        case _:
            return ()
