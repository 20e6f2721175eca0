"""Parts of a JSON Schema that become one hole: rewritten into keywords that a grammar can enforce."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Final, TypeAlias

from pastalang.values.json import JsonValue, write_json
from pastalang.values.schema.disjoint import all_apart
from pastalang.values.schema.guard import find_in_schemas, unescape
from pastalang.values.schema.keywords import (
    ANNOTATIONS,
    DEPENDENT,
    NAMED,
    NOT_CARRIED,
    REFUSED_FORMATS,
    is_refused,
    why_refused,
)
from pastalang.values.schema.scalars import SchemaRefused

Schema: TypeAlias = dict[str, JsonValue]

MAX_DEPENDENT_KEYS: Final = 8  # each doubles the alternatives
_MAX_ALTERNATIVES: Final = 64
_DATA: Final = frozenset({"const", "enum", "default", "examples", "example"})  # what they hold is no schema


def map_schemas(document: JsonValue, change: Callable[[Schema], Schema]) -> JsonValue:
    """The document with every schema in it changed, the inner ones first."""
    if isinstance(document, list):
        return [map_schemas(part, change) for part in document]
    if not isinstance(document, dict):
        return document
    inner: Schema = {}
    for keyword, part in document.items():
        if keyword in NAMED and isinstance(part, dict):
            inner[keyword] = {name: map_schemas(named, change) for name, named in part.items()}
        else:
            inner[keyword] = part if keyword in _DATA else map_schemas(part, change)
    return change(inner)


def in_cases(schema: Schema, document: JsonValue) -> Schema:
    """Of one schema in a document; what would be too many alternatives stays as it is."""
    found, cases = dict(schema), list[JsonValue]()
    dependent = [case for keyword in DEPENDENT for case in _dependent(schema.get(keyword))]
    if dependent and len(dependent) <= MAX_DEPENDENT_KEYS:
        cases += dependent
        found = {keyword: part for keyword, part in found.items() if keyword not in DEPENDENT}
    single = _only_one(schema, document)
    if single is not None:
        cases.append(single)
        del found["oneOf"]
    if not cases:
        return schema
    others = schema.get("allOf", [])
    return {**found, "allOf": [*(others if isinstance(others, list) else []), *cases]}


def in_new_words(schema: Schema) -> Schema:
    """`dependencies` of older drafts as the two keywords that came after it."""
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


def too_many_cases(schema: Mapping[str, JsonValue]) -> str | None:
    """The keyword with more keys than can be enforced."""
    for keyword in DEPENDENT:
        if isinstance(given := schema.get(keyword), dict) and len(given) > MAX_DEPENDENT_KEYS:
            return keyword
    return None


def _dependent(given: JsonValue) -> list[JsonValue]:
    """For each key: it is not there, or what it needs is."""
    cases: list[JsonValue] = []
    for key, needed in given.items() if isinstance(given, dict) else ():
        then: JsonValue = {"required": needed} if isinstance(needed, list) else needed
        cases.append({"anyOf": [{"properties": {key: False}}, then]})
    return cases


def _only_one(schema: Schema, document: JsonValue) -> JsonValue | None:
    """Alternatives of which exactly one holds, where they are apart, or each asks for keys and for nothing else."""
    arms = schema.get("oneOf")
    if not isinstance(arms, list) or len(arms) < 2:
        return None
    if all_apart(arms, document, beside={keyword: part for keyword, part in schema.items() if keyword != "oneOf"}):
        return {"anyOf": arms}
    asked = [keys for arm in arms if (keys := _asked_keys(arm))]
    if len(asked) < len(arms):
        return None
    cases: list[JsonValue] = []
    for at, keys in enumerate(asked):
        ways = [[key for key in other if key not in keys] for number, other in enumerate(asked) if number != at]
        for left_out in product(*ways):  # nothing where another arm holds whenever this one does
            if len(cases) >= _MAX_ALTERNATIVES:
                return None
            without: Schema = dict.fromkeys(left_out, False)
            cases.append({"type": "object", "required": [*keys], "properties": without})
    return {"anyOf": cases} if cases else None


def _asked_keys(arm: JsonValue) -> list[str]:
    """What it asks for; nothing where it says anything else."""
    keys = arm.get("required") if isinstance(arm, dict) and not set(arm) - {"required"} - ANNOTATIONS else None
    return [str(key) for key in keys] if isinstance(keys, list) else []


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
