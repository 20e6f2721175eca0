"""From a part of a JSON Schema to the document of one hole, or to the keyword that no grammar engine enforces."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pastalang.values.json import JsonValue, write_json
from pastalang.values.schema.guard import find_in_schemas, unescape
from pastalang.values.schema.keywords import NOT_CARRIED, REFUSED_FORMATS, is_refused, why_refused
from pastalang.values.schema.scalars import SchemaRefused
from pastalang.values.schema_cases import MAX_DEPENDENT_KEYS, in_new_words, map_schemas, too_many_cases


def carried_document(schema: Mapping[str, JsonValue], document: JsonValue, *, is_root: bool) -> str:
    """The part as canonical text, with the definitions that it may refer to. Raises `SchemaRefused`."""
    schema = _in_new_words(schema)
    text = write_json(schema)
    outside = [found for found in re.findall(r'"\$ref":"([^"]*)"', text) if not _is_definition(found)]
    if outside and not is_root:
        raise SchemaRefused("$ref", f"`{outside[0]}` leads out of a part that is enforced as a whole; use `$defs`")
    whole: dict[str, JsonValue] = {key: part for key, part in schema.items() if key != "$schema"}
    if '"$ref"' in text and isinstance(document, dict):
        whole |= _definitions(text, document)
    refused = find_in_schemas(whole, carrying_problem)
    if refused is not None:
        raise SchemaRefused(refused[0].lstrip("/"), refused[1])
    return write_json(map_schemas(whole, in_new_words))


def _in_new_words(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    found = map_schemas(dict(schema), in_new_words)
    assert isinstance(found, dict)
    return found


def _definitions(text: str, document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The definitions that the text refers to, and those that they refer to."""
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


def carrying_problem(schema: dict[str, JsonValue]) -> tuple[str, str] | None:
    """Why one schema inside such a part cannot be enforced, as (keyword, reason)."""
    for keyword in schema:
        if keyword in NOT_CARRIED:
            return keyword, NOT_CARRIED[keyword]
        if is_refused(keyword):
            return keyword, why_refused(keyword)
    if (crowded := too_many_cases(schema)) is not None:
        return crowded, f"of more than {MAX_DEPENDENT_KEYS} keys cannot be enforced while decoding"
    if schema.get("format") in REFUSED_FORMATS:
        return "format", f"the format {schema['format']} cannot be enforced"
    return None


def _is_definition(reference: str) -> bool:
    return reference.startswith(("#/$defs/", "#/definitions/"))
