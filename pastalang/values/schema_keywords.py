"""The keywords of JSON Schema by what the import does with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from pastalang.diagnostics.suggest import did_you_mean

# Say nothing about values, or are read where they stand (`description`, `title`, `default`).
ANNOTATIONS: Final = frozenset(
    {
        "title", "description", "$comment", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
        "$schema", "$id", "id", "$anchor", "$vocabulary", "$defs", "definitions", "contentMediaType", "contentEncoding",
        "contentSchema",
    }
)  # fmt: skip

# What each type's keywords are; together with `type` itself they become a hole type.
FAMILIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
        "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
        "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
        "boolean": frozenset(),
        "null": frozenset(),
        "array": frozenset({"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"}),
        "object": frozenset(
            {"properties", "required", "additionalProperties", "patternProperties", "propertyNames"}
            | {"minProperties", "maxProperties"}
        ),
    }
)

# No engine enforces these token by token; a finished value that breaks them is told so.
CHECKED_AFTER: Final = frozenset({"uniqueItems"})

# Become part of a type, but no engine takes them inside a part that is carried whole.
NOT_CARRIED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "propertyNames": "cannot be enforced here; use `patternProperties` with `additionalProperties: false`",
        "additionalItems": "cannot be enforced here; use `prefixItems` with `items`",
    }
)

_NO_ENGINE: Final = "cannot be enforced while decoding"
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "not": f"{_NO_ENGINE}; say what a value is, not what it is not",
        "if": f"{_NO_ENGINE}; write the cases as `anyOf`",
        "then": f"{_NO_ENGINE}; write the cases as `anyOf`",
        "else": f"{_NO_ENGINE}; write the cases as `anyOf`",
        "contains": _NO_ENGINE,
        "minContains": _NO_ENGINE,
        "maxContains": _NO_ENGINE,
        "unevaluatedProperties": f"{_NO_ENGINE}; use `additionalProperties`",
        "unevaluatedItems": f"{_NO_ENGINE}; use `items`",
        "$dynamicRef": "is not supported; use `$ref`",
        "$recursiveRef": "is not supported; use `$ref`",
        "$dynamicAnchor": "is not supported; use `$defs`",
        "$recursiveAnchor": "is not supported; use `$defs`",
        "extends": "is no keyword of JSON Schema",
        "divisibleBy": "is a keyword of an old draft; use `multipleOf`",
    }
)

# What else becomes part of a type, whatever the type.
COMBINING: Final = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "discriminator")

# Said again as alternatives for an engine, in one hole.
DEPENDENT: Final = ("dependentRequired", "dependentSchemas", "dependencies")

# Hold schemas by name.
NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "dependentRequired"}
)

_CONSTRAINTS: Final = frozenset(COMBINING).union(REFUSED, DEPENDENT, *FAMILIES.values())

# Formats of the standard that no expression of ours says. Other names that are not known are remarks.
REFUSED_FORMATS: Final = frozenset(
    {
        "regex", "json-pointer", "relative-json-pointer", "uri-reference", "uri-template", "iri", "iri-reference",
        "idn-email", "idn-hostname",
    }
)  # fmt: skip


def is_constraint(keyword: str) -> bool:
    """Whether it says something about values; what nobody knows is a remark, as the standard has it."""
    return keyword in _CONSTRAINTS


def is_refused(keyword: str) -> bool:
    """Also what looks like a slip of the pen: a constraint that is misspelt would be lost."""
    return keyword in REFUSED or _slip(keyword) is not None


def why_refused(keyword: str) -> str:
    return REFUSED.get(keyword, f"is no keyword; did you mean `{_slip(keyword)}`?")


def is_unknown(keyword: str) -> bool:
    return keyword not in _CONSTRAINTS and keyword not in ANNOTATIONS


@lru_cache(maxsize=4096)
def _slip(keyword: str) -> str | None:
    if not is_unknown(keyword) or not keyword.isalpha():  # `x-format`, `_format`: somebody meant another word
        return None
    meant = did_you_mean(keyword, _CONSTRAINTS)
    if meant is None or abs(len(meant) - len(keyword)) > 2:
        return None
    is_other_word = meant.startswith(keyword) or keyword.startswith(meant)  # `form` is no misspelt `format`
    return None if is_other_word and abs(len(meant) - len(keyword)) > 1 else meant
