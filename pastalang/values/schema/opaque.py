"""Opaque parts of a JSON Schema: each becomes one hole, rewritten into keywords that a grammar can enforce."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Final, TypeAlias

from pastalang.values.json import JsonValue, write_json
from pastalang.values.schema.disjoint import are_disjoint
from pastalang.values.schema.guard import find_in_schemas, unescape
from pastalang.values.schema.keywords import (
    ANNOTATIONS,
    DEPENDENT,
    HOLDS_DATA,
    NAMED,
    NOT_IN_OPAQUE,
    REFUSED_FORMATS,
    is_refused,
    why_refused,
)
from pastalang.values.schema.scalars import SchemaRefused

Schema: TypeAlias = dict[str, JsonValue]

MAX_DEPENDENT_KEYS: Final = 8  # each doubles the alternatives

_MAX_ALTERNATIVES: Final = 64


def opaque_document(schema: Mapping[str, JsonValue], document: JsonValue, *, is_root: bool) -> str:
    """The part as canonical text, with the definitions it refers to. Raises `SchemaRefused`."""
    schema = _split_dependencies(schema)
    text = write_json(schema)
    outside = [found for found in re.findall(r'"\$ref":"([^"]*)"', text) if not _is_definition(found)]
    if outside and not is_root:
        raise SchemaRefused("$ref", f"`{outside[0]}` points outside a part that is enforced as one hole; use `$defs`")
    whole: dict[str, JsonValue] = {key: part for key, part in schema.items() if key != "$schema"}
    if '"$ref"' in text and isinstance(document, dict):
        whole |= _definitions(text, document)
    refused = find_in_schemas(whole, opaque_problem)
    if refused is not None:
        raise SchemaRefused(refused[0].lstrip("/"), refused[1])
    return write_json(map_schemas(whole, _enforceable))


def _enforceable(schema: Schema) -> Schema:
    return {keyword: part for keyword, part in split_dependencies(schema).items() if not _is_idle(keyword, part)}


def _is_idle(keyword: str, part: JsonValue) -> bool:
    """Whether a keyword allows every value, although the grammar does not know it."""
    return keyword == "uniqueItems" and part is False


def opaque_problem(schema: dict[str, JsonValue]) -> tuple[str, str] | None:
    """Why a schema inside an opaque part cannot be enforced, as (keyword, reason)."""
    for keyword, part in schema.items():
        if keyword in NOT_IN_OPAQUE and not _is_idle(keyword, part):
            return keyword, NOT_IN_OPAQUE[keyword]
        if is_refused(keyword):
            return keyword, why_refused(keyword)
    if (crowded := _excessive_dependency(schema)) is not None:
        return crowded, f"of more than {MAX_DEPENDENT_KEYS} keys cannot be enforced while decoding"
    if schema.get("format") in REFUSED_FORMATS:
        return "format", f"the format {schema['format']} cannot be enforced"
    return None


def with_alternatives(schema: Schema, document: JsonValue) -> Schema:
    """The schema with dependencies and `oneOf` rewritten as `anyOf`. Too many alternatives stay as they are."""
    found, cases = dict(schema), list[JsonValue]()
    dependent = [case for keyword in DEPENDENT for case in _dependent(schema.get(keyword))]
    if dependent and len(dependent) <= MAX_DEPENDENT_KEYS:
        cases += dependent
        found = {keyword: part for keyword, part in found.items() if keyword not in DEPENDENT}
    single = _exclusive_alternatives(schema, document)
    if single is not None:
        cases.append(single)
        del found["oneOf"]
    if not cases:
        return schema
    others = schema.get("allOf", [])
    return {**found, "allOf": [*(others if isinstance(others, list) else []), *cases]}


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


def _split_dependencies(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    found = map_schemas(dict(schema), split_dependencies)
    assert isinstance(found, dict)
    return found


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


def _excessive_dependency(schema: Mapping[str, JsonValue]) -> str | None:
    """The keyword that depends on more keys than can be enforced, if there is one."""
    for keyword in DEPENDENT:
        if isinstance(given := schema.get(keyword), dict) and len(given) > MAX_DEPENDENT_KEYS:
            return keyword
    return None


def _dependent(given: JsonValue) -> list[JsonValue]:
    """For each key: the key is missing, or what it needs holds."""
    cases: list[JsonValue] = []
    for key, needed in given.items() if isinstance(given, dict) else ():
        then: JsonValue = {"required": needed} if isinstance(needed, list) else needed
        cases.append({"anyOf": [{"properties": {key: False}}, then]})
    return cases


def _exclusive_alternatives(schema: Schema, document: JsonValue) -> JsonValue | None:
    """`oneOf` as `anyOf`, if the alternatives are disjoint or each of them only requires keys; else None."""
    arms = schema.get("oneOf")
    if not isinstance(arms, list) or len(arms) < 2:
        return None
    if are_disjoint(
        arms, document, together_with={keyword: part for keyword, part in schema.items() if keyword != "oneOf"}
    ):
        return {"anyOf": arms}
    required_keys = [keys for arm in arms if (keys := _required_keys(arm))]
    if len(required_keys) < len(arms):
        return None
    cases: list[JsonValue] = []
    for at, keys in enumerate(required_keys):
        ways = [[key for key in other if key not in keys] for number, other in enumerate(required_keys) if number != at]
        for left_out in product(*ways):  # empty if another arm holds whenever this one does
            if len(cases) >= _MAX_ALTERNATIVES:
                return None
            without: Schema = dict.fromkeys(left_out, False)
            cases.append({"type": "object", "required": [*keys], "properties": without})
    return {"anyOf": cases} if cases else None


def _required_keys(arm: JsonValue) -> list[str]:
    """The keys that the alternative requires; empty if it constrains anything else."""
    keys = arm.get("required") if isinstance(arm, dict) and not set(arm) - {"required"} - ANNOTATIONS else None
    return [str(key) for key in keys] if isinstance(keys, list) else []
