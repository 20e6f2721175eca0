"""Converts the types of outlines (`outlines.types`), and compiled regular expressions, to hole types.

A type of outlines describes text, so most terms become the pattern that outlines' own `to_regex` writes. Choices become
literals and schemas become hole types, which have guides of their own. Grammars and patterns that cannot be
enforced, such as look-around, are refused by name. Importing outlines takes a second, so it is imported on first use.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from pastalang.program import types as t
from pastalang.values.conversion import Converted, NotExpressible
from pastalang.values.json import parse_json
from pastalang.values.paths import Mismatch
from pastalang.values.patterns import find_problem, narrowed
from pastalang.values.schema.importer import type_of_schema

_NO_TYPES: dict[str, t.Type] = {}


def from_outlines(term: Any, *, name: str = "this type") -> Converted:
    """Raises `NotExpressible` if the term cannot be enforced."""
    from outlines.types import dsl

    match term:
        case dsl.CFG():
            raise _refusal(
                name, f"{name} is a grammar of outlines, which cannot be enforced; use a schema or a pattern"
            )
        case dsl.JsonSchema(schema=schema):
            return _from_schema(schema, name)
        case dsl.Choice() | dsl.Alternatives() | dsl.String() if (options := _options(term)) is not None:
            return _plain(_one_of(options, name))
        case dsl.Alternatives(terms=terms) if None in terms:
            return _or_null([part for part in terms if part is not None], name)
        case dsl.Term():
            return _plain(_pattern(term, name))
        case _:
            raise _refusal(name, f"{name} is not a type of outlines: {type(term).__name__}")


def is_term(value: object) -> bool:
    """Returns True if outlines defines the value's class. Does not import outlines, which takes a second."""
    return any(cls.__module__.partition(".")[0] == "outlines" for cls in type(value).__mro__)


def from_expression(expression: re.Pattern[Any], *, name: str = "this type") -> Converted:
    """Texts that match the whole expression. Raises `NotExpressible` if it cannot be enforced."""
    if not isinstance(expression.pattern, str) or expression.flags & ~re.UNICODE:
        raise _refusal(name, f"{expression!r} has flags or matches bytes; write an expression of texts without flags")
    return _plain(_enforced(expression.pattern, name))


def _refusal(name: str, reason: str) -> NotExpressible:
    return NotExpressible(name, [Mismatch((), reason)])


def _or_null(terms: list[Any], name: str) -> Converted:
    from outlines.types import dsl

    found = from_outlines(terms[0] if len(terms) == 1 else dsl.Alternatives(terms), name=name)
    arms = found.type.arms if isinstance(found.type, t.Union) else (found.type,)
    return Converted(t.Union((*arms, t.Null())), found.types, found.notes)


def _options(term: Any) -> list[Any] | None:
    """The values of a term that only lists values, else None."""
    from outlines.types import dsl

    match term:
        case dsl.String(value=value):
            return [value]
        case dsl.Choice(items=items):
            plain = all(item is None or isinstance(item, str | bool | int | float) for item in items)
            return list(items) if plain else None
        case dsl.Alternatives(terms=terms):
            inner = [_options(part) for part in terms]
            return None if None in inner else [value for options in inner if options is not None for value in options]
        case _:
            return None


def _one_of(options: list[Any], name: str) -> t.Type:
    literals = dict.fromkeys(t.Literal(Decimal(str(one)) if isinstance(one, float) else one) for one in options)
    if not literals:
        raise _refusal(name, "a choice of outlines has no options")
    return next(iter(literals)) if len(literals) == 1 else t.Union(tuple(literals))


def _pattern(term: Any, name: str) -> t.Regex:
    from outlines.types.dsl import to_regex

    try:
        pattern = str(to_regex(term))
    except (TypeError, ValueError, NotImplementedError) as problem:
        raise _refusal(name, f"{name} has no pattern: {problem}") from problem
    return _enforced(pattern, name)


def _enforced(pattern: str, name: str) -> t.Regex:
    if (reason := find_problem(pattern)) is not None:
        raise _refusal(name, f"{name} cannot be enforced: {reason}, in /{pattern}/")
    return t.Regex(narrowed(pattern))


def _from_schema(schema: str, name: str) -> Converted:
    try:
        return type_of_schema(parse_json(schema), name=name)
    except NotExpressible as problem:
        raise _refusal(name, f"{name} cannot be enforced: {problem}") from problem


def _plain(type: t.Type) -> Converted:
    return Converted(type, _NO_TYPES, ())
