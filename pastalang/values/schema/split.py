"""Splits a JSON Schema into what a grammar enforces token by token and what is checked on the finished value.

    values of the document = values of `enforced` that pass the check        `enforced` accepts every one of them

Every keyword that a grammar cannot express is left out of `enforced`, and `checked` names it. `oneOf` becomes `anyOf`,
which is checked too unless its alternatives certainly share no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import combinations, product
from math import isfinite
from typing import Final, TypeAlias

from pastalang import limits
from pastalang.program import types as t
from pastalang.program.regex import Node, RegexError, characters, meetings, parse_regex
from pastalang.program.visit import JSON_KINDS, walk
from pastalang.values.json import JsonValue, parse_json, pointer_step, same_json, write_json
from pastalang.values.patterns import whole_pattern
from pastalang.values.schema.guard import OWN_IDENTIFIER, resolve, unescape
from pastalang.values.schema.keywords import (
    CHECKED,
    CHECKED_FORMATS,
    HOLDS_DATA,
    NAMED,
    Schema,
    is_constraint,
    is_unknown,
    modern,
)

_DEFINITIONS: Final = ("$defs", "definitions")
_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_PROPERTY_COUNTS: Final = ("minProperties", "maxProperties")
_MERGING: Final = frozenset({*_COMBINING, "$ref"})
_FARTHEST: Final = 10**18 - 1_024  # where a lower bound may be
_LARGEST_STEP: Final = 2**16  # without its point: a grammar has as many states
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


def split(document: JsonValue) -> Split:
    splitter = _Splitter(modern(document))
    return Split(splitter.whole(), tuple(splitter.checked))


def has_checks(types: Iterable[t.Type]) -> bool:
    """Returns True if a value of any of these types is checked when it is finished."""
    parts = (part for type in types for _, part in walk(type))
    return any(isinstance(part, t.Schema) and bool(split_text(part.document).checked) for part in parts)


@dataclass(slots=True)
class _Splitter:
    document: JsonValue
    checked: dict[str, None] = field(default_factory=dict)
    closures: dict[str, frozenset[str]] = field(default_factory=dict)
    disjoint: DisjointSchemas = field(init=False)

    def __post_init__(self) -> None:
        self.disjoint = DisjointSchemas(self.document)

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
        return found

    def leave(self, pointer: str) -> None:
        """Leave a keyword to the check."""
        self.checked[pointer] = None

    # ── one schema ───────────────────────────────────────────────────────────────────────────────────────

    def schema(self, schema: JsonValue | None, at: str) -> JsonValue:
        if not isinstance(schema, dict):
            return schema
        found = {
            keyword: self.part(keyword, part, f"{at}/{pointer_step(keyword)}")
            for keyword, part in schema.items()
            if keyword not in _LEFT_OUT and not _is_idle_identifier(keyword, schema, at)
        }
        found = self.with_union(found, at)
        for keyword in _unsupported(schema):
            self.leave(f"{at}/{keyword}")
        found = self.with_keys_apart(self.with_counts(found, at), at)
        for keyword in _inexact(found):
            self.leave(f"{at}/{keyword}")
            del found[keyword]
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
            return {name: self.schema(one, f"{at}/{pointer_step(name)}") for name, one in part.items()}
        return self.schema(part, at)

    def with_union(self, schema: Schema, at: str) -> Schema:
        """The schema with `anyOf` for `oneOf`, which accepts more values if alternatives share some."""
        arms = schema.get("oneOf")
        if not isinstance(arms, list):
            return schema
        others = {keyword: part for keyword, part in schema.items() if keyword != "oneOf"}
        if len(arms) == 1:
            return with_parts(others, arms)
        if not self.disjoint.are_disjoint(arms, together_with=others):
            self.leave(f"{at}/oneOf")
        return with_parts(others, [{"anyOf": arms}])

    def with_counts(self, schema: Schema, at: str) -> Schema:
        """The schema without limits on the number of its properties that a grammar cannot count: it counts properties
        that are required or have no names, and only where no other schema is merged."""
        properties, required = schema.get("properties", {}), schema.get("required", [])
        needed = set(map(str, required if isinstance(required, list) else ()))
        if needed.issuperset(properties if isinstance(properties, dict) else ()) and not _MERGING & set(schema):
            return schema
        minimum = schema.get("minProperties", 0)
        for keyword in _PROPERTY_COUNTS:
            is_kept_anyway = keyword == "minProperties" and isinstance(minimum, int) and minimum <= len(needed)
            if keyword in schema and not is_kept_anyway:
                self.leave(f"{at}/{keyword}")
        return {keyword: part for keyword, part in schema.items() if keyword not in _PROPERTY_COUNTS}

    # ── patterns of keys ─────────────────────────────────────────────────────────────────────────────────

    def with_keys_apart(self, schema: Schema, at: str) -> Schema:
        """The schema without patterns that the same key may match: a grammar has one pattern for a key.

        Those of one schema become one pattern. Schemas that hold together for one value lose theirs.
        """
        found = dict(schema)
        named = schema.get("patternProperties")
        if isinstance(named, dict) and not self.disjoint.are_apart(combinations(named, 2)):
            self.leave(f"{at}/patternProperties")
            either = "|".join(f"(?:{pattern})" for pattern in named)
            found["patternProperties"] = {either: {"anyOf": [*named.values()]}}
        together = combinations(self.key_patterns(found), 2)
        if self.disjoint.are_apart(pair for two in together for pair in product(*two) if len(set(pair)) == 2):
            return found
        self.leave(f"{at}/patternProperties")
        return self.without_key_patterns(found)

    def key_patterns(self, schema: JsonValue, depth: int = 0) -> list[frozenset[str]]:
        """The patterns of keys of each schema that holds for one value."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return []
        arms = {keyword: part for keyword in _COMBINING if isinstance(part := schema.get(keyword), list)}
        parts = {keyword: [self.key_patterns(arm, depth + 1) for arm in part] for keyword, part in arms.items()}
        named, reference = schema.get("patternProperties"), schema.get("$ref")
        target = resolve(reference, self.document) if isinstance(reference, str) else None
        return [
            found
            for found in (
                frozenset(named if isinstance(named, dict) else ()),
                *(one for part in parts.pop("allOf", []) for one in part),
                *(frozenset[str]().union(*(one for part in either for one in part)) for either in parts.values()),
                *self.key_patterns(target, depth + 1),
            )
            if found
        ]

    def without_key_patterns(self, schema: Schema) -> Schema:
        left_out = {"patternProperties", "additionalProperties"} if "patternProperties" in schema else set()
        if self.key_patterns({"$ref": schema.get("$ref")}):
            left_out.add("$ref")
        found = {keyword: part for keyword, part in schema.items() if keyword not in left_out}
        for keyword in _COMBINING:
            if isinstance(arms := schema.get(keyword), list):
                found[keyword] = [self.without_key_patterns(arm) if isinstance(arm, dict) else arm for arm in arms]
        return found

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


def _inexact(schema: Schema) -> list[str]:
    """The keywords of the schema whose numbers are too large for a grammar, or have no exact form in it."""
    signs = {"minimum": 1, "exclusiveMinimum": 1, "maximum": -1, "exclusiveMaximum": -1}
    numbers = {
        keyword: part
        for keyword in (*signs, "multipleOf")
        if isinstance(part := schema.get(keyword), int | Decimal) and not isinstance(part, bool)
    }
    return [
        keyword
        for keyword, number in numbers.items()
        if (number * signs[keyword] > _FARTHEST if keyword in signs else not _is_counted(number))
    ]


def _is_counted(step: int | Decimal) -> bool:
    """Whether a grammar has the step exactly: it multiplies a double by ten until there is no fraction."""
    value, places = float(Decimal(step)), 0
    while isfinite(value) and not value.is_integer():
        value, places = value * 10, places + 1
    return step <= 0 or (value < _LARGEST_STEP and Decimal(int(value)).scaleb(-places) == step)


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
    for keyword in ("dependentRequired", "dependentSchemas"):
        if schema.get(keyword):
            yield keyword
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


def with_parts(schema: Schema, parts: list[JsonValue]) -> Schema:
    """The schema with further schemas that hold together with it."""
    others = schema.get("allOf", [])
    return {**schema, "allOf": [*(others if isinstance(others, list) else []), *parts]}


# ── schemas that certainly share no value ─────────────────────────────────────────────────────────────


_MAX_DEPTH: Final = 6
_MAX_ARMS: Final = 40
_MAX_VALUES: Final = 200
_IDENTIFIER: Final = re.compile(r'"\$?id":"')  # of a part: it changes the meaning of references

Keywords: TypeAlias = Mapping[str, JsonValue]


class DisjointSchemas:
    """Compares schemas of one document. `steps` bound the work for all of them, so that a hostile document takes no
    longer than a large one.

    Two schemas are disjoint if they accept different kinds of values, if their constants differ, if one requires a key
    that the other forbids, or if the schemas of a required key are disjoint.
    """

    def __init__(self, document: JsonValue, steps: int = limits.MAX_SCHEMA_WORK) -> None:
        self._document = document
        self._steps = steps
        parts = document.values() if isinstance(document, dict) else ()
        self._has_identifiers = any(_IDENTIFIER.search(write_json(part)) for part in parts)

    def are_disjoint(self, arms: Sequence[JsonValue], *, together_with: Keywords | None = None) -> bool:
        """Returns True if certainly no two of `arms` share a value. False if that takes too much work.

        The keywords `together_with` hold for each of them too.
        """
        if len(arms) > _MAX_ARMS or self._has_identifiers:
            return False
        around: JsonValue = dict(together_with or {})
        with suppress(_TooMuchWork):
            conjunctions = [self._conjunction([around, arm]) for arm in arms]
            return all(self._disjoint(left, right) for left, right in combinations(conjunctions, 2))
        return False

    def are_apart(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Returns True if certainly no text matches both patterns of a pair."""
        with suppress(_TooMuchWork, RegexError):
            return not any(self._meet(*(parse_regex(whole_pattern(search)) for search in pair)) for pair in pairs)
        return False

    def _meet(self, left: Node, right: Node) -> bool:
        weight = 1 + (len(characters(left)) + len(characters(right))) // 20
        for is_common in meetings(left, right):
            self._spend(weight)
            if is_common:
                return True
        return False

    def _spend(self, steps: int = 1) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _TooMuchWork

    def _conjunction(self, schemas: Sequence[JsonValue]) -> _Conjunction:
        parts = [part for schema in schemas for part in _joined(schema, self._document, 0)]
        self._spend(len(parts))
        return _Conjunction(parts)

    def _disjoint(self, left: _Conjunction, right: _Conjunction, depth: int = 0) -> bool:
        self._spend()
        kinds = left.kinds() & right.kinds()
        if not kinds:
            return True
        mine, others = left.values(), right.values()
        if mine is not None and others is not None:
            return not any(same_json(one, other) for one in mine for other in others)
        is_comparable = kinds == {"object"} and depth < _MAX_DEPTH
        return is_comparable and (self._told_apart(left, right, depth) or self._told_apart(right, left, depth))

    def _told_apart(self, left: _Conjunction, right: _Conjunction, depth: int) -> bool:
        """Returns True if a key that `left` requires makes them disjoint."""
        for key in left.required():
            if right.forbids(key):
                return True
            mine, others = left.at(key), right.at(key)
            if mine and others and self._disjoint(self._conjunction(mine), self._conjunction(others), depth + 1):
                return True
        return False


class _TooMuchWork(Exception):
    pass


class _Conjunction:
    """All schemas that hold for one value: the schema itself, those it refers to, and those in its `allOf`."""

    def __init__(self, parts: Sequence[Keywords]) -> None:
        self._parts = parts

    def kinds(self) -> frozenset[str]:
        return JSON_KINDS.intersection(*map(_kinds, self._parts))

    def values(self) -> list[JsonValue] | None:
        """The only values that the schema may accept, if it lists them."""
        for part in self._parts:
            if "const" in part:
                return [part["const"]]
            if isinstance(listed := part.get("enum"), list) and len(listed) <= _MAX_VALUES:
                return listed
        return None

    def required(self) -> frozenset[str]:
        lists = [keys for part in self._parts if isinstance(keys := part.get("required"), list)]
        return frozenset(str(key) for keys in lists for key in keys)

    def at(self, key: str) -> list[JsonValue]:
        """The schemas for the value of a key that `properties` names."""
        named = (part.get("properties") for part in self._parts)
        return [properties[key] for properties in named if isinstance(properties, dict) and key in properties]

    def forbids(self, key: str) -> bool:
        for part in self._parts:
            named = part.get("properties")
            is_named = isinstance(named, dict) and key in named
            if isinstance(named, dict) and named.get(key) is False:
                return True
            if part.get("additionalProperties") is False and not is_named and not part.get("patternProperties"):
                return True
        return False


def _joined(schema: JsonValue, document: JsonValue, depth: int) -> Iterator[Keywords]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):  # in older drafts, keywords next to `$ref` have no effect
        if reference == "#" or reference.startswith("#/"):
            yield from _joined(resolve(reference, document), document, depth + 1)
        return
    yield schema
    for part in joined if isinstance(joined := schema.get("allOf"), list) else ():
        yield from _joined(part, document, depth + 1)


def _kinds(schema: Keywords) -> frozenset[str]:
    """The kinds of values that one schema may accept."""
    given = schema.get("type")
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else [*JSON_KINDS]
    found = frozenset("number" if name == "integer" else str(name) for name in names)
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    return found & frozenset(map(_kind, listed)) if isinstance(listed, list) else found


def _kind(value: JsonValue) -> str:
    match value:
        case bool():
            return "boolean"
        case None:
            return "null"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case int() | Decimal() | float():
            return "number"
