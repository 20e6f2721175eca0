"""Writes limits on the names and the number of properties as keywords that a grammar enforces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pastalang.program.regex import RegexError
from pastalang.values.json import JsonValue
from pastalang.values.patterns import FORMATS, matches, whole_pattern
from pastalang.values.schema.alternatives import with_parts
from pastalang.values.schema.drafts import Schema
from pastalang.values.schema.guard import Work
from pastalang.values.schema.keywords import is_constraint
from pastalang.values.schema.negation import negation

_COUNTS: Final = ("minProperties", "maxProperties")
_MERGING: Final = ("allOf", "anyOf", "oneOf", "$ref")
_MAX_WAYS: Final = 24


def with_limits(found: Schema, schema: Schema, work: Work | None) -> tuple[Schema, list[str]]:
    """`found` with the limits of `schema` in other keywords, and the keywords for which there is no exact form.

    Without `work`, numbers of properties do not become alternatives, and nothing is negated.
    """
    left: list[str] = []
    names = schema.get("propertyNames", True)
    if names not in (True, {}):
        named = _with_names(found, names, work)
        left += ["propertyNames"] if named is None else []
        found = found if named is None else named
    counted = _with_counts(found, most_ways=_MAX_WAYS if work else 1)
    if counted is None:
        left += [keyword for keyword in _COUNTS if keyword in found]
        counted = {keyword: part for keyword, part in found.items() if keyword not in _COUNTS}
    return counted, left


def _with_names(schema: Schema, names: JsonValue, work: Work | None) -> Schema | None:
    """Names that are listed become `properties`, others a pattern."""
    properties, extra = _named(schema), schema.get("additionalProperties", True)
    if "patternProperties" in schema:
        return None
    if (listed := _listed_names(names)) is not None:
        allowed: Schema = {name: properties.get(name, extra) for name in [*properties, *listed] if name in listed}
        return _closed(schema, allowed, properties)
    pattern = _pattern_of_names(names, work)
    if pattern is None or (properties and extra not in (True, False, {})):
        return None
    allowed = {name: part for name, part in properties.items() if matches(whole_pattern(pattern), name)}
    found = _closed(schema, allowed, properties)
    return found if extra is False else {**found, "patternProperties": {pattern: extra}}


def _closed(schema: Schema, allowed: Schema, properties: Mapping[str, JsonValue]) -> Schema:
    others: Schema = {name: False for name in properties if name not in allowed}
    return {**schema, "properties": allowed | others, "additionalProperties": False}


def _named(schema: Schema) -> Schema:
    properties = schema.get("properties", {})
    return properties if isinstance(properties, dict) else {}


def _listed_names(names: JsonValue) -> list[str] | None:
    if not isinstance(names, dict) or not {"enum", "const"} & set(names):
        return None
    listed = names["enum"] if "enum" in names else [names["const"]]
    others = {keyword for keyword in names if is_constraint(keyword)} - {"enum", "const", "type"}
    if others or not isinstance(listed, list) or {"enum", "const"} <= set(names) or not _takes_text(names):
        return None
    return [name for name in listed if isinstance(name, str)]


def _pattern_of_names(names: JsonValue, work: Work | None) -> str | None:
    """An expression that finds a match in the names that the schema accepts, and in no others."""
    if not isinstance(names, dict) or not _takes_text(names):
        return None
    constraints = {keyword for keyword in names if is_constraint(keyword)} - {"type"}
    if constraints == {"not"} and work is not None:
        return _pattern_of_names(_for_text(negation(names["not"], {}, work)), work)
    if constraints == {"pattern"}:
        return _supported(str(names["pattern"]))
    if constraints == {"format"} and names["format"] in FORMATS:
        return _supported(f"^(?:{FORMATS[str(names['format'])].pattern})$")
    if constraints and constraints <= {"minLength", "maxLength"}:
        return rf"^[\s\S]{{{names.get('minLength', 0)},{names.get('maxLength', '')}}}$"
    return None


def _for_text(schema: JsonValue | None) -> JsonValue:
    """The only alternative that accepts a text, if there is one; None if there are several."""
    if not isinstance(schema, dict) or not isinstance(arms := schema.get("anyOf"), list):
        return None if schema is None else schema
    found = [arm for arm in arms if isinstance(arm, dict) and _takes_text(arm)]
    return found[0] if len(found) == 1 else None


def _takes_text(schema: Schema) -> bool:
    kinds = schema.get("type", "string")
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)


def _supported(pattern: str) -> str | None:
    try:
        whole_pattern(pattern)
    except RegexError:
        return None
    return pattern


def _with_counts(schema: Schema, *, most_ways: int) -> Schema | None:
    """The grammar counts only properties that are required or have no names. Small numbers become alternatives."""
    least, most = (_count(schema.get(keyword)) for keyword in _COUNTS)
    properties = _named(schema)
    names = [name for name, part in properties.items() if part is not False]
    required = schema.get("required", [])
    known = set(map(str, required)) if isinstance(required, list) else set()
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    found = {keyword: part for keyword, part in schema.items() if keyword not in _COUNTS}
    parts: list[JsonValue] = []
    if least is not None and least > len(known):
        if known.issuperset(properties) and not any(keyword in schema for keyword in _MERGING):
            found["minProperties"] = least
        elif least != 1 or not is_closed or not 0 < len(names) <= most_ways:
            return None
        else:
            parts.append({"anyOf": [{"required": [name]} for name in names]})
    if most is not None and not (is_closed and most >= len(names)):
        if known.issuperset(properties) and not any(keyword in schema for keyword in _MERGING):
            found["maxProperties"] = most
        elif most != 1 or not is_closed or len(names) > most_ways:
            return None
        else:
            ways = [dict.fromkeys((name for name in names if name != only), False) for only in names]
            parts.append({"anyOf": [{"properties": {**way}} for way in ways]})
    return with_parts(found, parts)


def _count(value: JsonValue) -> int | None:
    return None if value is None or isinstance(value, bool | str | list | dict) else int(value)
