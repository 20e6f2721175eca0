"""Walks documents schema by schema, and rewrites the keywords of older drafts as those of draft 2020-12."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pastalang.values.json import JsonValue, write_json
from pastalang.values.schema.keywords import HOLDS_DATA, NAMED

Schema: TypeAlias = dict[str, JsonValue]

_INTO_A_RENAMED_KEYWORD: Final = re.compile(r'"\$ref":"[^"]*/(?:items/[0-9]|additionalItems)')


def modern(document: JsonValue) -> JsonValue:
    """The document in the keywords of draft 2020-12. A keyword that a reference leads into keeps its old name."""
    found = map_schemas(document, lambda schema: _with_numbers(split_dependencies(schema)))
    return found if _INTO_A_RENAMED_KEYWORD.search(write_json(found)) else map_schemas(found, _with_prefix_items)


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
