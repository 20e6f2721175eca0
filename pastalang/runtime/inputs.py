"""Validates the inputs of a call."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, assert_never

from pastalang.diagnostics.suggest import did_you_mean, one_of
from pastalang.plan.plan import Plan
from pastalang.program.program import Input, InputKind, InputType, ListOf, OneOf, RecordOf, Role
from pastalang.runtime.errors import BadInputs

MAX_BITS = 13_287  # an integer of 4,000 digits; Python writes at most 4,300


def bind_inputs(plan: Plan, given: Mapping[str, Any], *, spell: Callable[[Any], str] | None = None) -> dict[str, Any]:
    """The value of every input of the plan, defaults included. Raises `BadInputs` with all problems.

    `spell` writes a value in a message. It defaults to `repr`, shortened.
    """
    spell = spell or _short_repr
    if not isinstance(given, Mapping):
        raise BadInputs(f"inputs have to be a dict by name{_example(plan)}, not {spell(given)}")
    declared = {input.name: input for input in plan.inputs}
    problems = [_unknown(name, declared) for name in given if name not in declared]
    values: dict[str, Any] = {}
    for input in plan.inputs:
        if input.name in given:
            values[input.name] = _own(given[input.name])
            problems += _problems(input.name, values[input.name], _type_of(input), spell)
        elif input.default is not None:
            values[input.name] = json.loads(input.default.json)
        else:
            problems.append(f"missing input `{input.name}` ({_described(_type_of(input))})")
    if problems:
        raise BadInputs("\n".join(problems))
    return values


def _own(value: Any) -> Any:
    """A copy, since a caller may reuse a list while the request waits. Members of Python enums become their values."""
    match value:
        case Enum():
            return value.value
        case list() | tuple():
            return [_own(item) for item in value]
        case Mapping():
            return {name: _own(part) for name, part in value.items()}
        case _:
            return value


def _example(plan: Plan) -> str:
    names = [f'"{input.name}": ...' for input in plan.inputs if input.default is None]
    return f", `{{{', '.join(names)}}}`" if names else ""


def _type_of(input: Input) -> InputType:
    return ListOf(input.type) if input.each else input.type


def _unknown(name: object, declared: Mapping[str, Input]) -> str:
    hint = did_you_mean(name, declared) if isinstance(name, str) else None
    return f"unknown input `{name}`" + (f"; did you mean `{hint}`?" if hint else "")


def _problems(path: str, value: Any, type: InputType, spell: Callable[[Any], str]) -> list[str]:
    match type:
        case InputKind() if isinstance(value, int) and value.bit_length() > MAX_BITS:
            return [f"`{path}` has more than 4,000 digits, which is more than can be written"]
        case InputKind.MESSAGES:
            return _message_problems(path, value, spell)
        case InputKind.TEXT if isinstance(value, str) and (half := _half_character(value)):
            return [
                f"`{path}` has half a character at {half.start()}: `{ascii(half.group())[1:-1]}` is one half of a pair"
            ]
        case InputKind():
            return [] if _has_kind(value, type) else [f"`{path}` has to be {_described(type)}, not {spell(value)}"]
        case OneOf(options=options):
            if isinstance(value, str) and value in options:
                return []
            hint = did_you_mean(value, options) if isinstance(value, str) else None
            meant = f"; did you mean {json.dumps(hint, ensure_ascii=False)}?" if hint else ""
            return [f"`{path}` has to be {_described(type)}, not {spell(value)}{meant}"]
        case ListOf(item=item):
            if not isinstance(value, list | tuple):
                return [f"`{path}` has to be {_described(type)}, not {spell(value)}"]
            return [problem for at, one in enumerate(value) for problem in _problems(f"{path}[{at}]", one, item, spell)]
        case RecordOf(fields=fields):
            return _record_problems(path, value, dict(fields), spell)
        case _:
            assert_never(type)


def _record_problems(path: str, value: Any, fields: Mapping[str, InputType], spell: Callable[[Any], str]) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"`{path}` has to be {_described(RecordOf(tuple(fields.items())))}, not {spell(value)}"]
    problems = [f"`{path}.{name}` is missing" for name in fields if name not in value]
    problems += [f"there is no `{path}.{name}`" for name in value if name not in fields]
    for name, type in fields.items():
        if name in value:
            problems += _problems(f"{path}.{name}", value[name], type, spell)
    return problems


def _message_problems(path: str, value: Any, spell: Callable[[Any], str]) -> list[str]:
    if not isinstance(value, list | tuple):
        return [f"`{path}` has to be {_described(InputKind.MESSAGES)}, not {spell(value)}"]
    problems: list[str] = []
    for at, message in enumerate(value):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "system":
            problems.append(f"`{path}[{at}]` is a system message; the template has its own, before the history")
        elif role not in _ROLES or not _has_kind(message.get("content"), InputKind.TEXT):
            problems.append(f"`{path}[{at}]` has to be {_MESSAGE}, not {spell(message)}")
    return problems


_ROLES = ("user", "assistant")
_MESSAGE = '{"role": "user" or "assistant", "content": text}'


def roles_of(messages: Any) -> tuple[Role, ...]:
    """The roles of a history that was checked."""
    return tuple(Role(message["role"]) for message in messages)


def _has_kind(value: Any, kind: InputKind) -> bool:
    match kind:
        case InputKind.TEXT:
            return isinstance(value, str) and _half_character(value) is None
        case InputKind.BOOLEAN:
            return isinstance(value, bool)
        case InputKind.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool)
        case InputKind.NUMBER:
            if isinstance(value, float | Decimal):
                return math.isfinite(value) if isinstance(value, float) else value.is_finite()
            return isinstance(value, int) and not isinstance(value, bool)
        case InputKind.MESSAGES:
            raise AssertionError("messages are checked one by one")
        case _:
            assert_never(kind)


def _half_character(text: str) -> re.Match[str] | None:
    """The first lone surrogate of a text, which cannot be written in UTF-8."""
    return re.search("[\ud800-\udfff]", text)


def _described(type: InputType) -> str:
    match type:
        case InputKind.INTEGER:
            return "an integer"
        case InputKind.MESSAGES:
            return f"a list of messages, each {_MESSAGE}"
        case InputKind():
            return {"text": "text", "number": "a number", "boolean": "true or false"}[type.value]
        case OneOf(options=options):
            return one_of([json.dumps(option, ensure_ascii=False) for option in options])
        case ListOf(item=item):
            return f"a list, each item {_described(item)}"
        case RecordOf(fields=fields):
            return "a record of " + ", ".join(f"`{name}`" for name, _ in fields)
        case _:
            assert_never(type)


def _short_repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # a number that is too long to write, or an object with a broken `__repr__`
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
