"""Whether the keywords of one JSON Schema hold what they must: a list where a list belongs, and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from pastalang.values.json import JsonValue


def shape_problem(schema: Mapping[str, JsonValue]) -> tuple[str, str] | None:
    """The first keyword with something else in it, and what belongs there."""
    for keyword, value in schema.items():
        expected = _SHAPES.get(keyword)
        if expected is not None and not expected[0](value):
            return keyword, f"must be {expected[1]}"
    return None


def _is_schema(value: JsonValue) -> bool:
    return isinstance(value, dict | bool)


def _are_schemas(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _are_named_schemas(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _are_key_lists(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _are_dependent(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(_is_schema(part) or _are_texts(part) for part in value.values())


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | Decimal)  # true and false too: draft 4 wrote them, and they get their own answer


def _is_count(value: JsonValue) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | Decimal) and value >= 0 and value == int(value)


def _are_types(value: JsonValue) -> bool:
    return isinstance(value, str) or _are_texts(value)


def _are_texts(value: JsonValue) -> bool:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return False
    return len(set(map(str, value))) == len(value)


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


_Check = tuple[Callable[[JsonValue], bool], str]
_SCHEMA: Final[_Check] = (_is_schema, "a schema")
_SCHEMAS: Final[_Check] = (_are_schemas, "a list of schemas that is not empty")
_NAMED: Final[_Check] = (_are_named_schemas, "an object of schemas")
_NUMBER: Final[_Check] = (_is_number, "a number")
_DEPENDENT: Final[_Check] = (_are_dependent, "an object of schemas or lists of different keys")
_COUNT: Final[_Check] = (_is_count, "a whole number that is not negative")
_TEXT: Final[_Check] = (_is_text, "a string")

_SHAPES: Final[Mapping[str, _Check]] = MappingProxyType(
    {
        "type": (_are_types, "the name of a type, or a list of different names"),
        "required": (_are_texts, "a list of different keys"),
        "enum": (lambda value: isinstance(value, list), "a list of values"),
        "items": (lambda value: _is_schema(value) or _are_schemas(value), "a schema"),
        "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
        "dependencies": _DEPENDENT,
        "dependentRequired": (_are_key_lists, "an object of lists of different keys"),
        "discriminator": (lambda value: isinstance(value, dict), "an object"),
        **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _SCHEMAS),
        **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _NAMED),
        **dict.fromkeys(
            ("additionalProperties", "additionalItems", "propertyNames", "not", "if", "then", "else", "contains"),
            _SCHEMA,
        ),
        **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), _SCHEMA),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBER),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
        **dict.fromkeys(("pattern", "format", "$ref", "$id"), _TEXT),
    }
)
