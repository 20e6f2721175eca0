"""Finds JSON Schemas that certainly share no value.

Two schemas are disjoint if they accept different kinds of values, if their constants differ, if one requires a key that
the other forbids, or if the schemas of a required key are disjoint. `oneOf` of disjoint schemas equals `anyOf`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import combinations
from typing import Final

from pastalang import limits
from pastalang.program.visit import JSON_KINDS
from pastalang.values.json import JsonValue, same_json, write_json
from pastalang.values.schema.guard import resolve

_MAX_DEPTH: Final = 6
_MAX_ARMS: Final = 40
_MAX_VALUES: Final = 200
_IDENTIFIER: Final = re.compile(r'"\$?id":"')  # of a part: it changes the meaning of references

Schema = Mapping[str, JsonValue]


class DisjointSchemas:
    """Compares schemas of one document. `steps` bound the work for all of them, so that a hostile document takes no
    longer than a large one."""

    def __init__(self, document: JsonValue, steps: int = limits.MAX_SCHEMA_WORK) -> None:
        self._document = document
        self._steps = steps
        parts = document.values() if isinstance(document, dict) else ()
        self._has_identifiers = any(_IDENTIFIER.search(write_json(part)) for part in parts)

    def are_disjoint(self, arms: Sequence[JsonValue], *, together_with: Schema | None = None) -> bool:
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

    def __init__(self, parts: Sequence[Schema]) -> None:
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


def _joined(schema: JsonValue, document: JsonValue, depth: int) -> Iterator[Schema]:
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


def _kinds(schema: Schema) -> frozenset[str]:
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
