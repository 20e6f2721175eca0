"""Opaque parts of a JSON Schema: each becomes one hole."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pastalang import limits
from pastalang.program import types as t
from pastalang.program.visit import walk
from pastalang.values.json import JsonValue, write_json
from pastalang.values.schema.drafts import modern
from pastalang.values.schema.guard import find_in_schemas, unescape
from pastalang.values.schema.keywords import REFUSED_FORMATS, is_refused, why_refused
from pastalang.values.schema.scalars import SchemaRefused


def opaque_document(schema: Mapping[str, JsonValue], document: JsonValue, *, is_root: bool) -> str:
    """The part as canonical text, with the definitions it refers to. Raises `SchemaRefused`."""
    text = write_json(dict(schema))
    outside = [found for found in re.findall(r'"\$ref":"([^"]*)"', text) if not _is_definition(found)]
    if outside and not is_root:
        raise SchemaRefused("$ref", f"`{outside[0]}` points outside a part that is enforced as one hole; use `$defs`")
    whole: dict[str, JsonValue] = {key: part for key, part in schema.items() if key != "$schema"}
    if '"$ref"' in text and isinstance(document, dict):
        whole |= _definitions(text, document)
    refused = find_in_schemas(whole, opaque_problem)
    if refused is not None:
        raise SchemaRefused(refused[0].lstrip("/"), refused[1])
    return write_json(modern(whole))


def opaque_problem(schema: dict[str, JsonValue]) -> tuple[str, str] | None:
    """Why a schema inside an opaque part cannot be enforced, as (keyword, reason)."""
    if schema.get("format") in REFUSED_FORMATS:
        return "format", f"the format {schema['format']} cannot be enforced"
    return next(((keyword, why_refused(keyword)) for keyword in schema if is_refused(keyword)), None)


def _definitions(text: str, document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The definitions that the text refers to, directly or through other definitions."""
    found: dict[tuple[str, str], JsonValue] = {}
    waiting = [text]
    while waiting:
        for word, step in re.findall(r'"\$ref":"#/(\$defs|definitions)/([^/"]*)', waiting.pop()):
            name = unescape(step)
            container = document.get(word)
            if (word, name) not in found and isinstance(container, dict) and name in container:
                found[word, name] = container[name]
                waiting.append(write_json(container[name]))
    words = dict.fromkeys(word for word, _ in found)
    return {word: {name: part for (other, name), part in found.items() if other == word} for word in words}


def _is_definition(reference: str) -> bool:
    return reference.startswith(("#/$defs/", "#/definitions/"))


def repeats_definitions(type: t.Type, types: Mapping[str, t.Type], document: JsonValue) -> bool:
    """Whether the parts that are one hole each, with copies of what they refer to, are far longer than the schema."""
    parts = (part for one in (type, *types.values()) for _, part in walk(one))
    copies = sum(map(len, {part.document for part in parts if isinstance(part, t.Schema)}))
    return copies > limits.MAX_SCHEMA_COPIES * max(len(write_json(document)), limits.SMALL_SCHEMA_BYTES)
