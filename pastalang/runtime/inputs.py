"""Validates the inputs of a call and writes them as text for a prompt."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, assert_never

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.plan.plan import ForItems, IfGiven, InputText, ItemNumber, Plan, PromptText, Text
from pastalang.program.program import Input, InputKind, InputType, ListOf, OneOf, RecordOf
from pastalang.program.types import Literal
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
            values[input.name] = _without_enums(given[input.name])
            problems += _problems(input.name, values[input.name], _type_of(input), spell)
        elif input.default is not None:
            values[input.name] = json.loads(input.default.json)
        else:
            problems.append(f"the input `{input.name}` is missing: it is {_described(_type_of(input))}")
    if problems:
        raise BadInputs("\n".join(problems))
    return values


def _without_enums(value: Any) -> Any:
    """The value with the values of Python enums in place of their members."""
    match value:
        case Enum():
            return value.value
        case list() | tuple() if any(isinstance(item, Enum | list | tuple | Mapping) for item in value):
            return [_without_enums(item) for item in value]
        case Mapping() if any(isinstance(part, Enum | list | tuple | Mapping) for part in value.values()):
            return {name: _without_enums(part) for name, part in value.items()}
        case _:
            return value


def text_of(value: Any) -> str:
    """A value as text for a prompt: text unchanged, plain lists separated by commas, records as JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case list() | tuple() if all(isinstance(item, str | int | float | Decimal) for item in value):
            return ", ".join(text_of(item) for item in value)
        case list() | tuple() | Mapping():
            return _json(value)
        case _:
            return str(value)


def _json(value: Any) -> str:
    """JSON of any kind of mapping, with every digit of its numbers."""
    match value:
        case list() | tuple():
            return f"[{', '.join(map(_json, value))}]"
        case Mapping():
            return "{" + ", ".join(f"{_json(name)}: {_json(part)}" for name, part in value.items()) + "}"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def input_texts(segment: InputText, named: Callable[[str], Any]) -> list[str]:
    """The text of an input, in the stretches that are encoded apart: data never shares a token with known text.

    `named` gives the value of an input or an item.
    """
    found: list[tuple[str, bool]] = []
    for text, is_known in _texts(segment, named, 0):
        if is_known and found and found[-1][1]:
            text = found.pop()[0] + text
        found.append((text, is_known))
    return [text for text, _ in found]


def _texts(piece: PromptText, named: Callable[[str], Any], number: int) -> Iterator[tuple[str, bool]]:
    """Each stretch, and whether the program gives it."""
    match piece:
        case Text(text=text):
            yield text, True
        case ItemNumber():
            yield str(number), True
        case InputText(path=(name, *rest), block=block):
            value = value_at(named(name), tuple(rest))
            match block:
                case None:
                    yield text_of(value), False
                case ForItems(item=item, body=body):
                    for index, element in enumerate(value, start=1):
                        inner = partial(_named_or_item, named, item, element)
                        for part in body:
                            yield from _texts(part, inner, index)
                case IfGiven(body=body, otherwise=otherwise):
                    for part in body if _holds(block, value) else otherwise:
                        yield from _texts(part, named, number)


def _named_or_item(named: Callable[[str], Any], item: str, element: Any, name: str) -> Any:
    return element if name == item else named(name)


def _holds(condition: IfGiven, value: Any) -> bool:
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    is_so = bool(value) if condition.equals is None else condition.equals == Literal(exact)
    return is_so is not condition.is_negated


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """The part of a record that a path of names leads to."""
    for name in path:
        value = value[name]
    return value


def _example(plan: Plan) -> str:
    names = [f'"{input.name}": ...' for input in plan.inputs if input.default is None]
    return f", `{{{', '.join(names)}}}`" if names else ""


def _type_of(input: Input) -> InputType:
    return ListOf(input.type) if input.each else input.type


def _unknown(name: object, declared: Mapping[str, Input]) -> str:
    hint = did_you_mean(name, declared) if isinstance(name, str) else None
    return f"there is no input `{name}`" + (f"; did you mean `{hint}`?" if hint else "")


def _problems(path: str, value: Any, type: InputType, spell: Callable[[Any], str]) -> list[str]:
    match type:
        case InputKind() if isinstance(value, int) and value.bit_length() > MAX_BITS:
            return [f"`{path}` has more than 4,000 digits, which is more than can be written"]
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


def _has_kind(value: Any, kind: InputKind) -> bool:
    match kind:
        case InputKind.TEXT:
            return isinstance(value, str) and _is_unicode(value)
        case InputKind.BOOLEAN:
            return isinstance(value, bool)
        case InputKind.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool)
        case InputKind.NUMBER:
            if isinstance(value, float | Decimal):
                return math.isfinite(value) if isinstance(value, float) else value.is_finite()
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            assert_never(kind)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _described(type: InputType) -> str:
    match type:
        case InputKind.INTEGER:
            return "an integer"
        case InputKind():
            return {"text": "text", "number": "a number", "boolean": "true or false"}[type.value]
        case OneOf(options=options):
            quoted = [json.dumps(option, ensure_ascii=False) for option in options]
            return " or ".join([*([", ".join(quoted[:-1])] if quoted[1:] else []), quoted[-1]])
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
