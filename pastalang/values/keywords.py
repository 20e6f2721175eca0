"""The table of JSON Schema keywords: enforced token by token, checked after, or refused by name.

The rows come from the tables that the import itself consults; a test tries each row's examples for real, with
the import, with reading and with a grammar engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from pastalang.values.formats import FORMATS
from pastalang.values.schema_keywords import (
    ANNOTATIONS,
    CHECKED_AFTER,
    COMBINING,
    DEPENDENT,
    FAMILIES,
    REFUSED,
    REFUSED_FORMATS,
)
from pastalang.values.to_schema import STANDARD_FORMATS


class Status(Enum):
    ENFORCED = "enforced"  # no token is taken that breaks it
    CHECKED_AFTER = "checked after"  # a finished value that breaks it is told so
    REFUSED = "refused"  # the import stops, and names it
    REMARK = "remark"  # says nothing about values


@dataclass(frozen=True, slots=True)
class Keyword:
    name: str
    status: Status
    words: str  # how it is written here, or why it is refused


_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "type": "the type; several become a union",
        "enum": 'literals, `"a" | "b"`',
        "const": "a literal",
        "minLength": "`string(min_chars=...)`, in characters",
        "maxLength": "`string(max_chars=...)`, in characters",
        "pattern": "`string(pattern=/.../)`; unanchored ends are written out; no look-around",
        "format": "`string(format=...)`; names that the standard does not know are remarks",
        "minimum": "`integer(min=...)`, `number(min=...)`, exact",
        "maximum": "`integer(max=...)`, `number(max=...)`, exact",
        "exclusiveMinimum": "`above=...`",
        "exclusiveMaximum": "`below=...`",
        "multipleOf": "`multiple_of=...`, exact",
        "items": "`[T]`",
        "prefixItems": "`[T, U]` where no further items may stand behind them; else one hole",
        "additionalItems": "the end of a tuple in older drafts",
        "minItems": "`[T](min=...)`",
        "maxItems": "`[T](max=...)`",
        "uniqueItems": "`[T](unique=true)`",
        "properties": "the fields of an object",
        "required": "every key is written; one that may be left out is noted",
        "additionalProperties": "`false` for objects, a schema for maps; further keys are never written",
        "patternProperties": "`{/pattern/: T}` where it stands alone; else one hole",
        "propertyNames": "the pattern of a map's keys",
        "minProperties": "`{string: T}(min=...)`",
        "maxProperties": "`{string: T}(max=...)`",
        "anyOf": "a union; beside other keywords, one hole",
        "oneOf": "a union whose alternatives are certainly apart, or ask for different keys and nothing else",
        "allOf": "one schema, or one hole for several",
        "$ref": "within the document; recursion becomes a named type",
        "dependentRequired": "one hole, the cases side by side",
        "dependentSchemas": "one hole, the cases side by side",
        "dependencies": "the same in older drafts",
        "discriminator": "found again from the alternatives themselves",
        "description": "the description of a field or type",
        "title": "the name of a type",
        "default": "the default of a key that may be left out",
        "$defs": "where references lead",
        "definitions": "where references lead",
    }
)  # fmt: skip


def keywords() -> tuple[Keyword, ...]:
    """Every keyword that the import knows, the enforced ones first."""
    return tuple(_rows())


def keyword_table() -> str:
    """The table as Markdown, as `docs/constraints.md` holds it and `pasta check --explain-constraints` prints it."""
    rows = [("keyword", "what happens", "how")]
    rows += [(f"`{keyword.name}`", keyword.status.value, keyword.words) for keyword in keywords()]
    rows += [(f"`format: {name}`", Status.ENFORCED.value, FORMATS[name].meaning) for name in sorted(STANDARD_FORMATS)]
    rows += [(f"`format: {name}`", Status.REFUSED.value, "cannot be enforced") for name in sorted(REFUSED_FORMATS)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"| {row[0]:<{widths[0]}} | {row[1]:<{widths[1]}} | {_cell(row[2])} |" for row in rows]
    lines.insert(1, f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|---|")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _rows() -> Iterator[Keyword]:
    understood = dict.fromkeys(
        (*COMBINING, *DEPENDENT, *(name for family in FAMILIES.values() for name in sorted(family)))
    )
    for name in understood:
        if name not in CHECKED_AFTER:
            yield Keyword(name, Status.ENFORCED, _WORDS[name])
    for name in sorted(CHECKED_AFTER):
        yield Keyword(name, Status.CHECKED_AFTER, _WORDS[name])
    for name, reason in REFUSED.items():
        yield Keyword(name, Status.REFUSED, reason)
    for name in sorted(ANNOTATIONS):
        yield Keyword(name, Status.REMARK, _WORDS.get(name, "says nothing about values"))
