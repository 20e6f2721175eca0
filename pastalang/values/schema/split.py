"""Splits a JSON Schema into what a grammar enforces token by token and what is checked on the finished value.

    values of the document = values of `enforced` that pass the check        `enforced` accepts every one of them

Dependent keys, `oneOf` and small numbers of properties are rewritten as `anyOf`, where that means exactly the same.
Every other keyword that a grammar cannot express is left out of `enforced`, and `checked` names it. The same is done
with all keywords that become alternatives, if these are too many for a grammar together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Final

from pastalang import limits
from pastalang.program import types as t
from pastalang.program.visit import walk
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.schema.disjoint import are_disjoint
from pastalang.values.schema.guard import OWN_IDENTIFIER, TooMuchWork, Work, find_multiplied, resolve, unescape
from pastalang.values.schema.keywords import (
    ANNOTATIONS,
    CHECKED,
    CHECKED_FORMATS,
    DEPENDENT,
    HOLDS_DATA,
    NAMED,
    Schema,
    is_constraint,
    is_unknown,
    modern,
)

_DEFINITIONS: Final = ("$defs", "definitions")
_COMBINING: Final = ("allOf", "anyOf", "oneOf")
MAX_DEPENDENT_KEYS: Final = 8  # each doubles the alternatives
_PROPERTY_COUNTS: Final = ("minProperties", "maxProperties")
_MERGING: Final = (*_COMBINING, "$ref")
_MAX_ALTERNATIVES: Final = 64
_MAX_COUNT_ALTERNATIVES: Final = 24
_LEFT_OUT: Final = frozenset({*CHECKED, "uniqueItems", "propertyNames"})  # left to the check


@dataclass(frozen=True, slots=True)
class Split:
    """`checked` are JSON pointers of the keywords that only the finished value is checked for."""

    enforced: JsonValue
    checked: tuple[str, ...]


@lru_cache(maxsize=256)
def split_text(document: str) -> Split:
    """The split of a document that `find_unsafe` has found safe, given as text."""
    return split(parse_json(document))


def split(document: JsonValue, *, steps: int = limits.MAX_SCHEMA_WORK) -> Split:
    """The split of a safe document. What cannot be rewritten in so many steps is left to the check."""
    given = modern(document)
    with suppress(TooMuchWork):
        splitter = _Splitter(given, Work(steps))
        found = splitter.whole()
        if find_multiplied(found) is None:
            return Split(found, tuple(splitter.checked))
    splitter = _Splitter(given, None)
    return Split(splitter.whole(), tuple(splitter.checked))


def has_checks(types: Iterable[t.Type]) -> bool:
    """Returns True if a value of any of these types is checked when it is finished."""
    parts = (part for type in types for _, part in walk(type))
    return any(isinstance(part, t.Schema) and bool(split_text(part.document).checked) for part in parts)


@dataclass(slots=True)
class _Splitter:
    document: JsonValue
    work: Work | None  # None: no keyword becomes alternatives
    checked: dict[str, None] = field(default_factory=dict)
    closures: dict[str, frozenset[str]] = field(default_factory=dict)

    def whole(self) -> JsonValue:
        """The document with everything that is reached from its root split."""
        found = self.schema(self.document, "#")
        waiting, known = [*_references(found)], {"#"}
        while waiting and isinstance(found, dict):
            place = _definition(waiting.pop())
            if place is not None and place not in known:
                known.add(place)
                part = self.schema(resolve(place, self.document), place)
                found = _with_part(found, [unescape(step) for step in place.split("/")[1:]], part)
                waiting += _references(part, with_definitions=True)  # what a definition holds may be named through it
        return {key: part for key, part in found.items() if key != "$schema"} if isinstance(found, dict) else found

    def leave(self, pointer: str) -> None:
        """Leave a keyword to the check."""
        self.checked[pointer] = None

    # ── one schema ───────────────────────────────────────────────────────────────────────────────────────

    def schema(self, schema: JsonValue | None, at: str) -> JsonValue:
        if not isinstance(schema, dict):
            return schema
        if self.work is not None:
            self.work.spend()
        inner = {
            keyword: self.part(keyword, part, f"{at}/{_step(keyword)}")
            for keyword, part in schema.items()
            if keyword not in _LEFT_OUT and not _is_idle_identifier(keyword, schema, at)
        }
        rewritten = inner if self.work is None else _with_alternatives(inner, self.document, self.work)
        found = self.with_unions(rewritten, at)
        for keyword in _unsupported(schema):
            self.leave(f"{at}/{keyword}")
        found = self.with_counts(found, at)
        if found.get("format") in CHECKED_FORMATS:
            self.leave(f"{at}/format")
            del found["format"]
        return self.without_circles(found, at, is_merged=False)

    def part(self, keyword: str, part: JsonValue, at: str) -> JsonValue:
        if keyword in HOLDS_DATA or is_unknown(keyword) or (keyword in _DEFINITIONS and at.count("/") == 1):
            return part
        if isinstance(part, list):
            return [self.schema(one, f"{at}/{number}") for number, one in enumerate(part)]
        if keyword in NAMED and isinstance(part, dict):
            return {name: self.schema(one, f"{at}/{_step(name)}") for name, one in part.items()}
        return self.schema(part, at)

    def with_unions(self, schema: Schema, at: str) -> Schema:
        """The schema without the keywords that could not become alternatives exactly: `oneOf` accepts more values."""
        found = {keyword: part for keyword, part in schema.items() if keyword not in ("oneOf", *DEPENDENT)}
        for keyword in DEPENDENT:
            if schema.get(keyword):
                self.leave(f"{at}/{keyword}")
        arms = schema.get("oneOf")
        if not isinstance(arms, list):
            return found
        if len(arms) == 1:
            return with_parts(found, arms)
        self.leave(f"{at}/oneOf")
        return with_parts(found, [{"anyOf": arms}])

    def with_counts(self, schema: Schema, at: str) -> Schema:
        """The schema with exact limits on the number of its properties, or without those limits."""
        counted = _with_property_counts(schema, max_alternatives=_MAX_COUNT_ALTERNATIVES if self.work else 1)
        if counted is not None:
            return counted
        for keyword in _PROPERTY_COUNTS:
            if keyword in schema:
                self.leave(f"{at}/{keyword}")
        return {keyword: part for keyword, part in schema.items() if keyword not in _PROPERTY_COUNTS}

    # ── references that lead back ────────────────────────────────────────────────────────────────────────

    def without_circles(self, schema: Schema, at: str, *, is_merged: bool) -> Schema:
        """The schema without references to what contains it, where others hold together with them: no grammar merges
        them."""
        is_merged = is_merged or _conjuncts(schema) > 1
        reference = schema.get("$ref")
        if is_merged and isinstance(reference, str) and self.is_around(reference, at):
            self.leave(f"{at}/$ref")
            schema = {keyword: part for keyword, part in schema.items() if keyword != "$ref"}
        found = dict(schema)
        for keyword in _COMBINING:
            if isinstance(arms := schema.get(keyword), list):
                found[keyword] = [
                    self.without_circles(arm, at, is_merged=is_merged) if isinstance(arm, dict) else arm for arm in arms
                ]
        return found

    def is_around(self, reference: str, at: str) -> bool:
        """Returns True if the schema at a pointer is inside what the reference leads to, directly or through others."""
        if reference not in self.closures:
            found, waiting = {reference}, [reference]
            while waiting:
                new = set(_references(resolve(waiting.pop(), self.document))) - found
                found |= new
                waiting += new
            self.closures[reference] = frozenset(found)
        return any(at == one or at.startswith(f"{one}/") for one in self.closures[reference])


def _conjuncts(schema: Schema) -> int:
    """How many schemas the grammar merges for one value."""
    own = any(is_constraint(keyword) for keyword in schema if keyword not in (*_COMBINING, "$ref"))
    parts = schema.get("allOf")
    several = sum(keyword in schema for keyword in ("$ref", "anyOf", "oneOf"))
    return own + several + (len(parts) if isinstance(parts, list) else 0)


def _unsupported(schema: Schema) -> Iterator[str]:
    """The keywords of the schema that only the finished value can be checked for."""
    if schema.get("not", False) is not False:
        yield "not"
    if "if" in schema and {"then", "else"} & set(schema):
        yield "if"
    if schema.get("propertyNames", True) not in (True, {}):
        yield "propertyNames"
    if schema.get("uniqueItems") is True and schema.get("maxItems") not in (0, 1):
        yield "uniqueItems"
    if "contains" in schema and not (schema.get("minContains") == 0 and "maxContains" not in schema):
        yield "contains"
    for keyword in ("unevaluatedProperties", "unevaluatedItems"):
        if schema.get(keyword, True) not in (True, {}):
            yield keyword


def _is_idle_identifier(keyword: str, schema: Schema, at: str) -> bool:
    """Returns True if the schema has an identifier that changes the meaning of no reference."""
    identifier = schema.get(keyword)
    if keyword not in ("$id", "id") or not isinstance(identifier, str) or identifier.startswith(OWN_IDENTIFIER):
        return False
    return at == "#" or not any(True for _ in _references(schema))


def _references(schema: JsonValue | None, *, with_definitions: bool = False) -> Iterator[str]:
    """All references in the schema; those in its own definitions only if asked for."""
    if isinstance(schema, dict) and not with_definitions:
        schema = {key: part for key, part in schema.items() if key not in _DEFINITIONS}
    for found in re.findall(r'"\$ref":("(?:[^"\\]|\\.)*")', write_json(schema)):
        yield str(parse_json(found))


def _definition(reference: str) -> str | None:
    """The pointer of the definition that holds what the reference leads to; None if the root holds it."""
    steps = reference.split("/")
    if len(steps) < 3 or steps[1] not in _DEFINITIONS:
        return None
    is_inside_schema = len(steps) == 3 or not is_unknown(unescape(steps[3]))
    return "/".join(steps[:3]) if is_inside_schema else reference


def _with_part(document: JsonValue, steps: list[str], part: JsonValue) -> JsonValue:
    if not steps:
        return part
    first, rest = steps[0], steps[1:]
    if isinstance(document, list):
        return [_with_part(one, rest, part) if str(at) == first else one for at, one in enumerate(document)]
    assert isinstance(document, dict)
    return {**document, first: _with_part(document[first], rest, part)}


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# ── alternatives ───────────────────────────────────────────────────────────────────────────────────────


def _with_alternatives(schema: Schema, document: JsonValue, work: Work) -> Schema:
    """The schema with dependencies and `oneOf` rewritten as `anyOf`. Too many alternatives stay as they are."""
    found, cases = dict(schema), list[JsonValue]()
    dependent = [case for keyword in DEPENDENT for case in _dependent(schema.get(keyword))]
    if dependent and len(dependent) <= MAX_DEPENDENT_KEYS:
        cases += dependent
        found = {keyword: part for keyword, part in found.items() if keyword not in DEPENDENT}
    single = _exclusive_alternatives(schema, document, work)
    if single is not None:
        cases.append(single)
        del found["oneOf"]
    return with_parts(found, cases)


def with_parts(schema: Schema, parts: list[JsonValue]) -> Schema:
    """The schema with further schemas that hold together with it."""
    if not parts:
        return schema
    others = schema.get("allOf", [])
    return {**schema, "allOf": [*(others if isinstance(others, list) else []), *parts]}


def _dependent(given: JsonValue) -> list[JsonValue]:
    """For each key: the key is missing, or what it needs holds."""
    cases: list[JsonValue] = []
    for key, needed in given.items() if isinstance(given, dict) else ():
        then: JsonValue = {"required": needed} if isinstance(needed, list) else needed
        cases.append({"anyOf": [{"properties": {key: False}}, then]})
    return cases


def _exclusive_alternatives(schema: Schema, document: JsonValue, work: Work) -> JsonValue | None:
    """`oneOf` as `anyOf`, if the alternatives are disjoint or each of them only requires keys; else None."""
    arms = schema.get("oneOf")
    if not isinstance(arms, list) or len(arms) < 2:
        return None
    others = {keyword: part for keyword, part in schema.items() if keyword != "oneOf"}
    if are_disjoint(arms, document, work, together_with=others):
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
            case: JsonValue = {"type": "object", "required": [*keys], "properties": without}
            cases += [case] if case not in cases else []
    return {"anyOf": cases} if cases else None


def _required_keys(arm: JsonValue) -> list[str]:
    """The keys that the alternative requires; empty if it constrains anything else."""
    keys = arm.get("required") if isinstance(arm, dict) and not set(arm) - {"required"} - ANNOTATIONS else None
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _with_property_counts(schema: Schema, *, max_alternatives: int) -> Schema | None:
    """The schema with its limits on the number of properties in a form that a grammar enforces; None if it has none.

    A grammar counts only properties that are required or have no names. "At least one" and "at most one" of the others
    become alternatives.
    """
    minimum, maximum = (_count(schema.get(keyword)) for keyword in _PROPERTY_COUNTS)
    properties = _named_properties(schema)
    names = [name for name, part in properties.items() if part is not False]
    required = schema.get("required", [])
    known = set(map(str, required)) if isinstance(required, list) else set()
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    found = {keyword: part for keyword, part in schema.items() if keyword not in _PROPERTY_COUNTS}
    parts: list[JsonValue] = []
    if minimum is not None and minimum > len(known):
        if known.issuperset(properties) and not any(keyword in schema for keyword in _MERGING):
            found["minProperties"] = minimum
        elif minimum != 1 or not is_closed or not 0 < len(names) <= max_alternatives:
            return None
        else:
            parts.append({"anyOf": [{"required": [name]} for name in names]})
    if maximum is not None and not (is_closed and maximum >= len(names)):
        if known.issuperset(properties) and not any(keyword in schema for keyword in _MERGING):
            found["maxProperties"] = maximum
        elif maximum != 1 or not is_closed or len(names) > max_alternatives:
            return None
        else:
            ways = [dict.fromkeys((name for name in names if name != only), False) for only in names]
            parts.append({"anyOf": [{"properties": {**way}} for way in ways]})
    return with_parts(found, parts)


def _count(value: JsonValue) -> int | None:
    return None if value is None or isinstance(value, bool | str | list | dict) else int(value)


def _named_properties(schema: Schema) -> Schema:
    properties = schema.get("properties", {})
    return properties if isinstance(properties, dict) else {}
