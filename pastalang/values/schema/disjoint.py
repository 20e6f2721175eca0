"""Finds JSON Schemas that certainly share no value.

Two schemas are disjoint if they accept different kinds of values, if their constants differ, if one requires a key that
the other forbids, or if the schemas of a required key are disjoint. `oneOf` of disjoint schemas equals `anyOf`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import combinations
from typing import Final

from pastalang.program.regex import RegexError
from pastalang.values.json import JsonValue, same_json
from pastalang.values.overlap import may_share_a_text
from pastalang.values.patterns import FORMATS, STANDARD_FORMATS, escaped, whole_pattern
from pastalang.values.schema.guard import TooMuchWork, Work, resolve

_KINDS: Final = frozenset({"string", "number", "boolean", "null", "array", "object"})
_MAX_DEPTH: Final = 6
_MAX_ARMS: Final = 40
_MAX_VALUES: Final = 200
_STEPS_OF_PATTERNS: Final = 50  # two large patterns take as long as so many small schemas

Schema = Mapping[str, JsonValue]


def are_disjoint(
    arms: Sequence[JsonValue], document: JsonValue, work: Work, *, together_with: Schema | None = None
) -> bool:
    """Returns True if certainly no two of `arms` share a value. False if that takes too much work.

    The keywords `together_with` hold for each of them too. References lead into `document`.
    """
    if len(arms) > _MAX_ARMS or _has_bases(document):
        return False
    around: JsonValue = dict(together_with or {})
    with suppress(TooMuchWork):
        conjunctions = [_Conjunction([around, arm], document, work) for arm in arms]
        return all(_disjoint(left, right) for left, right in combinations(conjunctions, 2))
    return False


class _Conjunction:
    """All schemas that hold for one value: the schema itself, those it refers to, and those in its `allOf`."""

    def __init__(self, schemas: Sequence[JsonValue], document: JsonValue, work: Work) -> None:
        self.document = document
        self.work = work
        self.parts = [part for schema in schemas for part in _joined(schema, document, 0)]
        work.spend(len(self.parts))

    def kinds(self) -> frozenset[str]:
        found = _KINDS
        for part in self.parts:
            found &= _kinds(part)
        return found

    def values(self) -> list[JsonValue] | None:
        """The only values that the schema may accept, if it lists them."""
        for part in self.parts:
            if "const" in part:
                return [part["const"]]
            if isinstance(listed := part.get("enum"), list) and len(listed) <= _MAX_VALUES:
                return listed
        return None

    def patterns(self) -> list[str]:
        """Patterns of whole texts, all of which a text matches. The texts of an enum are one pattern."""
        found: list[str] = []
        for part in self.parts:
            for keyword in ("pattern", "format"):
                given = part.get(keyword)
                with suppress(RegexError):
                    if keyword == "pattern" and isinstance(given, str):
                        found.append(whole_pattern(given))
                    elif given in STANDARD_FORMATS:
                        found.append(FORMATS[str(given)].pattern)
        if (values := self.values()) is not None:
            found.append("|".join(map(escaped, (value for value in values if isinstance(value, str)))))
        return found

    def required(self) -> frozenset[str]:
        lists = [keys for part in self.parts if isinstance(keys := part.get("required"), list)]
        return frozenset(str(key) for keys in lists for key in keys)

    def at(self, key: str) -> _Conjunction | None:
        """The schemas for the value of a key that `properties` names; None if there are none."""
        named = [part["properties"] for part in self.parts if isinstance(part.get("properties"), dict)]
        found = [properties[key] for properties in named if isinstance(properties, dict) and key in properties]
        return _Conjunction(found, self.document, self.work) if found else None

    def forbids(self, key: str) -> bool:
        for part in self.parts:
            named = part.get("properties")
            is_named = isinstance(named, dict) and key in named
            if isinstance(named, dict) and named.get(key) is False:
                return True
            if part.get("additionalProperties") is False and not is_named and not part.get("patternProperties"):
                return True
        return False


def _disjoint(left: _Conjunction, right: _Conjunction, depth: int = 0) -> bool:
    left.work.spend()
    kinds = left.kinds() & right.kinds()
    if not kinds:
        return True
    mine, others = left.values(), right.values()
    if mine is not None and others is not None:
        return not any(same_json(one, other) for one in mine for other in others)
    if kinds == {"string"} and _texts_disjoint(left, right):
        return True
    return (
        kinds == {"object"}
        and depth < _MAX_DEPTH
        and (_objects_disjoint(left, right, depth) or _objects_disjoint(right, left, depth))
    )


def _texts_disjoint(left: _Conjunction, right: _Conjunction) -> bool:
    """Returns True if no text matches a pattern of each, or is one that the other lists."""
    mine, others = left.patterns(), right.patterns()
    left.work.spend(_STEPS_OF_PATTERNS * len(mine) * len(others))
    return any(not may_share_a_text(one, other) for one in mine for other in others)


def _objects_disjoint(left: _Conjunction, right: _Conjunction, depth: int) -> bool:
    """Returns True if a key that `left` requires makes them disjoint."""
    for key in left.required():
        if right.forbids(key):
            return True
        mine, other = left.at(key), right.at(key)
        if mine is not None and other is not None and _disjoint(mine, other, depth + 1):
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
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else [*_KINDS]
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


def _has_bases(document: JsonValue) -> bool:
    """Returns True if a part has an identifier of its own, which changes the meaning of references."""
    waiting: list[JsonValue] = [*document.values()] if isinstance(document, dict) else [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("$id"), str) or isinstance(part.get("id"), str):
                return True
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return False
