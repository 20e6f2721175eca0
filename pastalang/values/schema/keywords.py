"""The keywords of JSON Schema: enforced token by token, checked, refused by name, or remarks without effect on values.

Documents of older drafts are walked schema by schema, and rewritten in the keywords of draft 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from pastalang.diagnostics.suggest import did_you_mean, distance
from pastalang.values.json import JsonValue, write_json
from pastalang.values.patterns import FORMATS, STANDARD_FORMATS

Schema: TypeAlias = dict[str, JsonValue]

_INTO_A_RENAMED_KEYWORD: Final = re.compile(r'"\$ref":"[^"]*/(?:items/[0-9]|additionalItems)')

# Without effect on values, or read separately (`description`, `title`, `default`).
ANNOTATIONS: Final = frozenset(
    {
        "title", "description", "$comment", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
        "$schema", "$id", "id", "$anchor", "$vocabulary", "$defs", "definitions", "contentMediaType", "contentEncoding",
        "contentSchema", "$dynamicAnchor", "$recursiveAnchor",
    }
)  # fmt: skip

# The keywords of each type. Together with `type` they become a hole type.
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

# Checked on the finished value.
CHECKED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dependentRequired": "checked",
        "dependentSchemas": "checked",
        "dependencies": "the same in older drafts",
        "not": "checked",
        "if": "checked",
        "then": "checked",
        "else": "checked",
        "contains": "checked",
        "minContains": "checked",
        "maxContains": "checked",
        "unevaluatedProperties": "checked; `additionalProperties` is enforced",
        "unevaluatedItems": "checked; `items` is enforced",
    }
)

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "$dynamicRef": "is not supported; use `$ref`",
        "$recursiveRef": "is not supported; use `$ref`",
        "extends": "is not a keyword of JSON Schema",
        "divisibleBy": "is a keyword of an old draft; use `multipleOf`",
        **dict.fromkeys(
            (
                *("formatMinimum", "formatMaximum", "formatExclusiveMinimum", "formatExclusiveMaximum"),
                *("exclusiveFormatMinimum", "exclusiveFormatMaximum"),
            ),
            "is not a keyword of JSON Schema; use `pattern`",
        ),
    }
)

# Keywords of every type.
COMBINING: Final = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "discriminator")

# Hold schemas by name.
NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "dependentRequired"}
)

# Of a document without dynamic references. A grammar engine refuses the anchors.
_IDLE: Final = frozenset({"$schema", "$dynamicAnchor", "$recursiveAnchor"})

# Hold data, not schemas.
HOLDS_DATA: Final = frozenset({"const", "enum", "default", "examples", "example"})

_CONSTRAINTS: Final = frozenset(COMBINING).union(REFUSED, CHECKED, *FAMILIES.values())

# Standard formats without a regular expression here. Names that the standard does not know are remarks.
CHECKED_FORMATS: Final = frozenset({"regex"})
REFUSED_FORMATS: Final = frozenset({"idn-email", "idn-hostname"})


def is_constraint(keyword: str) -> bool:
    """Returns True if the keyword constrains values. An unknown keyword is a remark, as in the standard."""
    return keyword in _CONSTRAINTS


def is_refused(keyword: str) -> bool:
    """Returns True if the keyword is refused, as a misspelt constraint is: it would be lost as a remark."""
    return keyword in REFUSED or _misspelt(keyword) is not None


def why_refused(keyword: str) -> str:
    return REFUSED.get(keyword, f"is not a keyword; did you mean `{_misspelt(keyword)}`?")


def is_unknown(keyword: str) -> bool:
    return keyword not in _CONSTRAINTS and keyword not in ANNOTATIONS


@lru_cache(maxsize=4096)
def _misspelt(keyword: str) -> str | None:
    if not is_unknown(keyword) or not keyword.isalpha():  # `x-format`, `_format`: not misspelt
        return None
    meant = did_you_mean(keyword, _CONSTRAINTS)
    if meant is None or len(keyword) < 4 or distance(keyword.lower(), meant.lower()) > 2:
        return None
    known, given = meant.lower(), keyword.lower()
    is_other_word = known.startswith(given) or given.startswith(known) or given.endswith(known)  # `axPattern`, `form`
    return None if is_other_word and abs(len(meant) - len(keyword)) > 1 else meant


class Status(Enum):
    ENFORCED = "enforced"  # no token can break it
    CHECKED = "checked"  # what no token can keep is checked on the finished value
    REFUSED = "refused"  # the import stops and names it
    REMARK = "remark"  # has no effect on values


@dataclass(frozen=True, slots=True)
class Keyword:
    name: str
    status: Status
    explanation: str  # how it is written in PastaLang, or why it is refused


_EXPLANATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "type": "the type; several become a union",
        "enum": 'literals, `"a" | "b"`',
        "const": "a literal",
        "minLength": "`string(min_chars=...)`, in characters",
        "maxLength": "`string(max_chars=...)`, in characters",
        "pattern": "`string(pattern=/.../)`; unanchored ends are written out; no look-around; `\\s` is that of ASCII, "
        "and `\\S` takes no white space of Unicode",
        "format": "`string(format=...)`; names that the standard does not know are remarks",
        "minimum": "`integer(min=...)`, `number(min=...)`, exact; checked inside one hole from 10^18 on",
        "maximum": "`integer(max=...)`, `number(max=...)`, exact; checked inside one hole up to -10^18",
        "exclusiveMinimum": "`above=...`",
        "exclusiveMaximum": "`below=...`",
        "multipleOf": "`multiple_of=...`, exact; checked inside one hole for steps of many digits",
        "items": "`[T]`",
        "prefixItems": "`[T, U]` if no further items may follow; otherwise one hole",
        "additionalItems": "the end of a tuple in older drafts",
        "minItems": "`[T](min=...)`",
        "maxItems": "`[T](max=...)`",
        "uniqueItems": "`[T](unique=true)`; checked inside a part that becomes one hole",
        "properties": "the fields of an object",
        "required": "a key that may be left out is null in what the model writes, and cut from the answer",
        "additionalProperties": "`false` for objects, a schema for maps; other keys are never written",
        "patternProperties": "`{/pattern/: T}` if it is the only keyword; the types of declared keys that match; "
        "otherwise one hole; checked if some overlap",
        "propertyNames": "the pattern of a map's keys, or the keys themselves; which declared keys are written; "
        "otherwise checked",
        "minProperties": "`{string: T}(min=...)`; all declared keys, if so many are needed; checked if only some are",
        "maxProperties": "`{string: T}(max=...)`; only required keys, if no others may be; checked if only some may be",
        "anyOf": "a union; together with other keywords, one hole",
        "oneOf": "a union, if certainly no value fits two alternatives; otherwise checked",
        "allOf": "one schema, or one hole for several",
        "$ref": "within the document; recursion becomes a named type",
        "discriminator": "found from the alternatives themselves",
        "description": "the description of a field or type",
        "title": "the name of a type",
        "default": "the default of a key that may be left out",
        **dict.fromkeys(("$dynamicAnchor", "$recursiveAnchor"), "has no effect, as nothing refers to it dynamically"),
        "$defs": "where references lead",
        "definitions": "where references lead",
    }
)  # fmt: skip


# A pattern that counts these would have a copy of itself for each character.
_OPEN_LENGTHS: Final[Mapping[str, str]] = {
    "email": "; of any length, also before the `@`, where RFC 5321 has 64 characters",
    "hostname": "; of any length, where RFC 1123 has 253 characters: `maxLength` limits it",
}


def keywords() -> tuple[Keyword, ...]:
    """Every keyword that the import knows, the enforced ones first."""
    return tuple(_rows())


def keyword_table() -> str:
    """The table as Markdown, as `docs/constraints.md` holds it and `pasta check --explain-constraints` prints it."""
    rows = [("keyword", "what happens", "how")]
    rows += [(f"`{keyword.name}`", keyword.status.value, keyword.explanation) for keyword in keywords()]
    rows += [
        (f"`format: {name}`", Status.ENFORCED.value, f"{FORMATS[name].meaning}{_OPEN_LENGTHS.get(name, '')}")
        for name in sorted(STANDARD_FORMATS)
    ]
    rows += [(f"`format: {name}`", Status.CHECKED.value, "checked") for name in sorted(CHECKED_FORMATS)]
    rows += [(f"`format: {name}`", Status.REFUSED.value, "cannot be enforced") for name in sorted(REFUSED_FORMATS)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"| {row[0]:<{widths[0]}} | {row[1]:<{widths[1]}} | {_cell(row[2])} |" for row in rows]
    lines.insert(1, f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|---|")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _rows() -> Iterator[Keyword]:
    understood = dict.fromkeys((*COMBINING, *(name for family in FAMILIES.values() for name in sorted(family))))
    for name in understood:
        yield Keyword(name, Status.ENFORCED, _EXPLANATIONS[name])
    for name, way in CHECKED.items():
        yield Keyword(name, Status.CHECKED, way)
    for name, reason in REFUSED.items():
        yield Keyword(name, Status.REFUSED, reason)
    for name in sorted(ANNOTATIONS):
        yield Keyword(name, Status.REMARK, _EXPLANATIONS.get(name, "has no effect on values"))


# ── older drafts ───────────────────────────────────────────────────────────────────────────────────────


def modern(document: JsonValue) -> JsonValue:
    """The document in the keywords of draft 2020-12. A keyword that a reference leads into keeps its old name.

    It names no draft: a validator would read what a reference to the whole document leads to by that draft.
    """
    found = map_schemas(document, lambda schema: _with_numbers(split_dependencies(_without_idle(schema))))
    return found if _INTO_A_RENAMED_KEYWORD.search(write_json(found)) else map_schemas(found, _with_prefix_items)


def _without_idle(schema: Schema) -> Schema:
    return {keyword: part for keyword, part in schema.items() if keyword not in _IDLE}


def split_dependencies(schema: Schema) -> Schema:
    """The schema with `dependencies`, of older drafts, split into the two keywords that replaced it."""
    given = schema.get("dependencies")
    if not isinstance(given, dict):
        return schema
    found = {keyword: part for keyword, part in schema.items() if keyword != "dependencies"}
    keys: Schema = {key: needed for key, needed in given.items() if isinstance(needed, list)}
    schemas: Schema = {key: needed for key, needed in given.items() if not isinstance(needed, list)}
    for keyword, parts in (("dependentRequired", keys), ("dependentSchemas", schemas)):
        before = schema.get(keyword, {})
        if parts:
            found[keyword] = {**(before if isinstance(before, dict) else {}), **parts}
    return found


def places(schema: Mapping[str, JsonValue]) -> tuple[list[JsonValue] | None, JsonValue, str]:
    """The schemas of the first items, the schema of the items after them, and the keyword that holds the first."""
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list):
        return prefix, schema.get("items", True), "prefixItems"
    if isinstance(schema.get("items"), list):
        return schema["items"], schema.get("additionalItems", True), "items"  # type: ignore[return-value]
    return None, True, "items"


def map_schemas(document: JsonValue, change: Callable[[Schema], Schema]) -> JsonValue:
    """The document with `change` applied to every schema in it, the inner ones first."""
    if isinstance(document, list):
        return [map_schemas(part, change) for part in document]
    if not isinstance(document, dict):
        return document
    inner: Schema = {}
    for keyword, part in document.items():
        if keyword in NAMED and isinstance(part, dict):
            inner[keyword] = {name: map_schemas(named, change) for name, named in part.items()}
        else:
            inner[keyword] = part if keyword in HOLDS_DATA else map_schemas(part, change)
    return change(inner)


def _with_numbers(schema: Schema) -> Schema:
    """In draft 4, `exclusiveMinimum` says whether `minimum` itself is excluded."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        given = schema.get(exclusive)
        if isinstance(given, bool):
            left_out = {exclusive, bound} if given and bound in schema else {exclusive}
            number: Schema = {exclusive: schema[bound]} if given and bound in schema else {}
            schema = {keyword: part for keyword, part in schema.items() if keyword not in left_out} | number
    return schema


def _with_prefix_items(schema: Schema) -> Schema:
    """Before draft 2020-12, `items` may list the first items, and `additionalItems` is the schema of those after."""
    if "additionalItems" not in schema and not isinstance(schema.get("items"), list):
        return schema
    found = {keyword: part for keyword, part in schema.items() if keyword not in ("items", "additionalItems")}
    if not isinstance(first := schema.get("items"), list):
        return found | ({"items": schema["items"]} if "items" in schema else {})
    rest: Schema = {"items": schema["additionalItems"]} if "additionalItems" in schema else {}
    return found | {"prefixItems": first} | rest
