"""Negates schemas in keywords that a grammar enforces, so that `not` and `if` become alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final, TypeAlias

from pastalang.values.json import JsonValue
from pastalang.values.patterns import escaped
from pastalang.values.schema.guard import Work, resolve
from pastalang.values.schema.keywords import is_constraint

KINDS: Final = ("string", "number", "boolean", "null", "array", "object")

_MAX_DEPTH: Final = 6  # of references and `not` inside one another
_MAX_TEXT: Final = 35  # characters of a text, because each is a group of the expression
_MAX_PATTERN: Final = 900  # characters of the expression
_MAX_WAYS: Final = 24  # alternatives of one negation

Negate: TypeAlias = "Callable[[JsonValue], JsonValue | None]"
Ways: TypeAlias = "list[JsonValue] | None"


def negation(schema: JsonValue, document: JsonValue, work: Work, depth: int = 0) -> JsonValue | None:
    """A schema that accepts exactly what `schema` refuses; None if it has none without `not`.

    References lead into `document`.
    """
    work.spend()
    if isinstance(schema, bool):
        return not schema
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    ways: list[JsonValue] = []
    for keyword in filter(is_constraint, schema):
        if keyword not in _NEGATIONS:
            return None
        found = _NEGATIONS[keyword](schema[keyword], lambda part: negation(part, document, work, depth + 1), document)
        if found is None or len(ways) + len(found) > _MAX_WAYS:
            return None
        ways += found
    return _one_of(ways)


def _one_of(ways: Sequence[JsonValue]) -> JsonValue:
    ways = [way for way in ways if way is not False]
    if not ways or True in [way for way in ways if isinstance(way, bool)]:
        return bool(ways)
    return ways[0] if len(ways) == 1 else {"anyOf": list(ways)}


def _all_of(parts: Sequence[JsonValue]) -> JsonValue:
    return parts[0] if len(parts) == 1 else {"allOf": list(parts)}


def _other_types(given: JsonValue, _negate: Negate, _document: JsonValue) -> Ways:
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    if "integer" in names and "number" not in names:  # no keyword accepts the other numbers only
        return None
    others: list[JsonValue] = [kind for kind in KINDS if kind not in names]
    return [{"type": others}] if others else []


def _other_values(given: JsonValue, _negate: Negate, _document: JsonValue) -> Ways:
    """All values but these: the other kinds, the other texts, the gaps between the numbers."""
    values = given if isinstance(given, list) else [given]
    if any(isinstance(value, list | dict) for value in values):
        return None
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | Decimal) and not isinstance(value, bool)]
    bools = [value for value in values if isinstance(value, bool)]
    touched = {
        name for name, found in (("string", texts), ("number", numbers), ("boolean", bools)) if found
    } | ({"null"} if None in values else set())  # fmt: skip
    ways: list[JsonValue] = [{"type": [kind for kind in KINDS if kind not in touched]}]
    if texts:
        pattern = pattern_of_others(texts)
        if pattern is None:
            return None
        ways.append({"type": "string", "pattern": pattern})
    ways += _between(sorted(set(numbers))) if numbers else []
    ways += [{"const": value} for value in (True, False) if bools and value not in bools]
    return ways


def _between(numbers: Sequence[int | Decimal]) -> Iterator[JsonValue]:
    yield {"type": "number", "exclusiveMaximum": numbers[0]}
    for low, high in pairwise(numbers):
        yield {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high}
    yield {"type": "number", "exclusiveMinimum": numbers[-1]}


def _missing(given: JsonValue, _negate: Negate, _document: JsonValue) -> Ways:
    keys = given if isinstance(given, list) else []
    return [{"type": "object", "properties": {str(key): False}} for key in keys]


def _other_parts(given: JsonValue, negate: Negate, _document: JsonValue) -> Ways:
    ways: list[JsonValue] = []
    for key, part in given.items() if isinstance(given, dict) else ():
        other = negate(part)
        if other is None:
            return None
        if other is not False:
            ways.append({"type": "object", "required": [key], "properties": {key: other}})
    return ways


def _itself(given: JsonValue, _negate: Negate, _document: JsonValue) -> Ways:
    return [given]


def _none_of(given: JsonValue, negate: Negate, _document: JsonValue) -> Ways:
    found = [negate(arm) for arm in given] if isinstance(given, list) else [None]
    parts = [part for part in found if part is not None]
    return [_all_of(parts)] if len(parts) == len(found) else None


def _not_all_of(given: JsonValue, negate: Negate, _document: JsonValue) -> Ways:
    found = [negate(arm) for arm in given] if isinstance(given, list) else [None]
    ways: list[JsonValue] = [way for way in found if way is not None]
    return ways if len(ways) == len(found) else None


def _referenced(given: JsonValue, negate: Negate, document: JsonValue) -> Ways:
    target = resolve(str(given), document)
    other = None if target is None else negate(target)
    return None if other is None else [other]


def _bound(kind: str, keyword: str, step: int = 0) -> Callable[[JsonValue, Negate, JsonValue], Ways]:
    def negated(given: JsonValue, _negate: Negate, _document: JsonValue) -> Ways:
        if isinstance(given, bool) or not isinstance(given, int | Decimal):
            return None
        limit = given + step
        return [{"type": kind, keyword: limit}] if limit >= 0 or not step else []

    return negated


_NEGATIONS: Final[Mapping[str, Callable[[JsonValue, Negate, JsonValue], Ways]]] = {
    "type": _other_types,
    "enum": _other_values,
    "const": lambda given, negate, document: _other_values([given], negate, document),
    "required": _missing,
    "properties": _other_parts,
    "not": _itself,
    "anyOf": _none_of,
    "allOf": _not_all_of,
    "$ref": _referenced,
    "minimum": _bound("number", "exclusiveMaximum"),
    "maximum": _bound("number", "exclusiveMinimum"),
    "exclusiveMinimum": _bound("number", "maximum"),
    "exclusiveMaximum": _bound("number", "minimum"),
    "minLength": _bound("string", "maxLength", -1),
    "maxLength": _bound("string", "minLength", 1),
    "minItems": _bound("array", "maxItems", -1),
    "maxItems": _bound("array", "minItems", 1),
}


def pattern_of_others(texts: Sequence[str]) -> str | None:
    """An expression that matches every text but these; None if it would be too large."""
    if max(map(len, texts)) > _MAX_TEXT:
        return None
    found = f"^{_others(frozenset(texts))}$"
    return found if len(found) <= _MAX_PATTERN else None


def _others(texts: frozenset[str]) -> str:
    """Branch by the first character: one that begins no text is followed by anything."""
    firsts = sorted({text[0] for text in texts if text})
    ways = [escaped(first) + _others(frozenset(text[1:] for text in texts if text[:1] == first)) for first in firsts]
    ways.append(f"[^{''.join(map(escaped, firsts))}][\\s\\S]*" if firsts else "[\\s\\S]+")
    return f"(?:{'|'.join(ways)})" + ("" if "" in texts else "?")
