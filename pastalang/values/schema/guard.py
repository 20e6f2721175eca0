"""Finds documents that are malformed or too large before the import of JSON Schemas reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import prod
from types import MappingProxyType
from typing import Final

from pastalang import limits
from pastalang.program.regex import RegexError
from pastalang.values.json import JsonValue, pointer_step, write_json
from pastalang.values.patterns import whole_pattern
from pastalang.values.schema.keywords import FAMILIES, HOLDS_DATA, NAMED, is_constraint, is_unknown

OWN_IDENTIFIER: Final = "urn:pasta:schema:"  # marks an embedded document with references of its own

_MAX_MERGED_DEPTH: Final = 32  # of references: two alternatives at each level are too many long before

_UNRESOLVED: Final = {
    "$dynamicRef": "a dynamic reference is not supported",
    "$recursiveRef": "a dynamic reference is not supported",
}


def find_unsafe(document: JsonValue) -> tuple[str, str] | None:
    """The first problem as (JSON pointer, reason); None if the document is safe to read."""
    for number, place in enumerate(_places(document), start=1):
        if number > limits.MAX_SCHEMA_PLACES:
            return "", f"a schema of more than {limits.MAX_SCHEMA_PLACES} parts is too large"
        if place.depth > limits.MAX_SCHEMA_NESTING:
            return place.pointer, f"schemas nest more than {limits.MAX_SCHEMA_NESTING} deep"
        problem = _problem_of(place.value, place.document) if place.is_schema else None
        if problem is not None:
            return f"{place.pointer}/{problem[0]}", problem[1]
    return find_multiplied(document)


def find_multiplied(document: JsonValue) -> tuple[str, str] | None:
    """The first part of a safe document, as (JSON pointer, reason), whose alternatives are too many together."""
    try:
        _Merged(document).count(document, "")
    except _TooMany as found:
        maximum = f"{limits.MAX_SCHEMA_MERGED:,}"
        return found.pointer, f"has more than {maximum} parts once its alternatives are written out, each with each"
    return None


def find_in_schemas(
    schema: JsonValue, find: Callable[[dict[str, JsonValue]], tuple[str, str] | None]
) -> tuple[str, str] | None:
    """The first problem that `find` reports in the document, as (JSON pointer, reason)."""
    for place in _places(schema):
        if place.is_schema and isinstance(place.value, dict) and (found := find(place.value)) is not None:
            return f"{place.pointer}/{found[0]}", found[1]
    return None


def resolve(pointer: str, document: JsonValue) -> JsonValue | None:
    """The value that a local reference `#/a/b` points to, or None."""
    found = document
    for step in pointer.removeprefix("#").split("/")[1:]:
        name = unescape(step)
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(found):
            found = found[int(name[:9])]
        else:
            return None
    return found


def unescape(step: str) -> str:
    from urllib.parse import unquote

    return unquote(step).replace("~1", "/").replace("~0", "~")


@dataclass(frozen=True, slots=True)
class _Place:
    """One value inside a document. `is_schema` is false for data and for objects whose keys are names."""

    pointer: str
    value: JsonValue
    is_schema: bool
    depth: int
    document: JsonValue

    def parts(self) -> Iterator[_Place]:
        if isinstance(self.value, list):
            for at, part in enumerate(self.value):
                yield _Place(f"{self.pointer}/{at}", part, self.is_schema, self.depth + 1, self.document)
        if not isinstance(self.value, dict):
            return
        identifier = self.value.get("$id") if self.is_schema else None
        own = isinstance(identifier, str) and identifier.startswith(OWN_IDENTIFIER)
        for key, part in self.value.items():
            if self.is_schema and (key in HOLDS_DATA or is_unknown(key)):
                continue
            inner = not self.is_schema or key not in NAMED
            yield _Place(
                f"{self.pointer}/{pointer_step(key)}", part, inner, self.depth + 1, self.value if own else self.document
            )


def _places(document: JsonValue) -> Iterator[_Place]:
    """All values of the document, level by level, so that a deep one is noticed before it is walked."""
    waiting = deque([_Place("", document, True, 0, document)])
    while waiting:
        place = waiting.popleft()
        yield place
        waiting.extend(place.parts())


class _TooMany(Exception):
    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        super().__init__(pointer)


@dataclass(slots=True)
class _Merged:
    """Counts what a grammar makes of a schema, without making it: each schema and each target of a reference once."""

    document: JsonValue
    targets: dict[str, tuple[int, int]] = field(default_factory=dict)
    depth: int = 0  # of references inside one another

    def count(self, schema: JsonValue, at: str) -> tuple[int, int]:
        """How many alternatives the schema is, and how many parts they have together."""
        if not isinstance(schema, dict):
            return 1, 1
        own, together = 1, list[tuple[int, int]]()
        for keyword, part in schema.items():
            here = f"{at}/{keyword}"
            if keyword in ("allOf", "anyOf", "oneOf") and isinstance(part, list):
                arms = [self.count(arm, f"{here}/{number}") for number, arm in enumerate(part)]
                together += arms if keyword == "allOf" else [(sum(w for w, _ in arms), sum(p for _, p in arms))]
            elif keyword == "enum" and isinstance(part, list):
                together.append((len(part), len(part)))
            elif keyword == "$ref":
                together += [self.target(str(part))] if sum(map(is_constraint, schema)) > 1 or "/allOf/" in at else []
            elif keyword not in HOLDS_DATA and not is_unknown(keyword):
                inner = sum(parts for _, parts in self.counts(keyword, part, here))
                own += 0 if keyword in ("$defs", "definitions") else inner
        together.append((1, own))
        ways = prod(ways for ways, _ in together)
        parts = sum(parts * (ways // max(own_ways, 1)) for own_ways, parts in together)
        if parts > limits.MAX_SCHEMA_MERGED:
            raise _TooMany(at)
        return ways, parts

    def counts(self, keyword: str, part: JsonValue, at: str) -> Iterator[tuple[int, int]]:
        if isinstance(part, list):
            yield from (self.count(one, f"{at}/{number}") for number, one in enumerate(part))
        elif keyword in NAMED and isinstance(part, dict):
            yield from (self.count(one, f"{at}/{pointer_step(name)}") for name, one in part.items())
        elif isinstance(part, dict):
            yield self.count(part, at)

    def target(self, reference: str) -> tuple[int, int]:
        """Of what a reference leads to, which is merged with what stands next to the reference."""
        if reference not in self.targets and self.depth < _MAX_MERGED_DEPTH:
            self.targets[reference] = 1, 1  # a reference back
            self.depth += 1
            self.targets[reference] = self.count(resolve(reference, self.document), reference.removeprefix("#"))
            self.depth -= 1
        return self.targets.get(reference, (1, 1))


def _problem_of(schema: JsonValue, document: JsonValue) -> tuple[str, str] | None:
    if not isinstance(schema, dict):
        return None
    identifier = schema.get("$id")
    if isinstance(identifier, str) and identifier.startswith(OWN_IDENTIFIER):
        document = schema
    for keyword, reason in _UNRESOLVED.items():
        if keyword in schema:
            return keyword, reason
    return (
        _shape_problem(schema)
        or _reference_problem(schema, document)
        or _enum_problem(schema)
        or _pattern_problem(schema)
    )


def _reference_problem(schema: dict[str, JsonValue], document: JsonValue) -> tuple[str, str] | None:
    seen: set[str] = set()  # also bounds the work, which is done anew for every reference
    target: JsonValue = schema
    while isinstance(target, dict) and "$ref" in target:
        reference = target["$ref"]
        if not isinstance(reference, str):
            return "$ref", "leads to a reference that is not a string"
        if not reference.startswith("#"):
            return "$ref", f"`{reference}` points outside the document, and nothing is fetched"
        if reference != "#" and not reference.startswith("#/"):
            return "$ref", f"`{reference}` is an anchor; use a path such as `#/$defs/name`"
        first = reference.removeprefix("#/").partition("/")[0]
        if reference != "#" and is_unknown(first):
            return "$ref", f"`{reference}` points below `{first}`, which is not a keyword; use `$defs`"
        if reference in seen:
            return "$ref", f"`{reference}` refers to itself"
        if len(seen) == limits.MAX_SCHEMA_NESTING:
            return "$ref", f"leads through more than {len(seen)} references"
        seen.add(reference)
        target = resolve(reference, document)
        if target is None or not isinstance(target, dict | bool):
            return "$ref", f"`{reference}` points to nothing"
    return None


def _enum_problem(schema: dict[str, JsonValue]) -> tuple[str, str] | None:
    values = schema.get("enum")
    if not isinstance(values, list):
        return None
    if not values:
        return "enum", "an empty enum has no value"
    if len(values) > limits.MAX_SCHEMA_ENUM:
        return "enum", f"an enum of {len(values)} values; the limit is {limits.MAX_SCHEMA_ENUM}"
    size = len(write_json(values).encode())
    if size > limits.MAX_SCHEMA_ENUM_BYTES:
        return "enum", f"an enum of {size} bytes; the limit is {limits.MAX_SCHEMA_ENUM_BYTES}"
    return None


def _pattern_problem(schema: dict[str, JsonValue]) -> tuple[str, str] | None:
    named = schema.get("patternProperties")
    patterns = [("pattern", schema["pattern"])] if "pattern" in schema else []
    patterns += [("patternProperties", pattern) for pattern in named] if isinstance(named, dict) else []
    for keyword, pattern in patterns:
        assert isinstance(pattern, str)
        try:
            whole_pattern(pattern)
        except RegexError as problem:
            return keyword, f"the pattern `{_shown(pattern)}` cannot be enforced while decoding: {problem.message}"
    return None


def _shown(text: str) -> str:
    return text if len(text) <= limits.MAX_NAME_CHARS else text[: limits.MAX_NAME_CHARS] + "…"


def _shape_problem(schema: Mapping[str, JsonValue]) -> tuple[str, str] | None:
    """The first keyword with a value of the wrong form, and the form it must have."""
    for keyword, value in schema.items():
        expected = _SHAPES.get(keyword)
        if expected is not None and not expected[0](value):
            return keyword, f"must be {expected[1]}, not {_shown(write_json(value))}"
    return None


def _is_schema(value: JsonValue) -> bool:
    return isinstance(value, dict | bool)


def _are_schemas(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _are_named_schemas(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _are_key_lists(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _are_dependent(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(_is_schema(part) or _are_texts(part) for part in value.values())


def _is_number(value: JsonValue) -> bool:
    return isinstance(
        value, int | Decimal
    )  # also true and false, as in draft 4: the import reports them with a better message


def is_count(value: JsonValue) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | Decimal) and value >= 0 and value == int(value)


def _are_types(value: JsonValue) -> bool:
    names: list[JsonValue] = value if isinstance(value, list) else [value]
    return _are_texts(names) and all(name in FAMILIES for name in names)


def _are_texts(value: JsonValue) -> bool:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return False
    return len(set(map(str, value))) == len(value)


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


_Check = tuple[Callable[[JsonValue], bool], str]

_SCHEMA: Final[_Check] = (_is_schema, "a schema")

_SCHEMAS: Final[_Check] = (_are_schemas, "a list of schemas that is not empty")

_NAMED: Final[_Check] = (_are_named_schemas, "an object of schemas")

_NUMBER: Final[_Check] = (_is_number, "a number")

_DEPENDENT: Final[_Check] = (_are_dependent, "an object of schemas or lists of different keys")

_COUNT: Final[_Check] = (is_count, "a whole number that is not negative")

_TEXT: Final[_Check] = (_is_text, "a string")

_SHAPES: Final[Mapping[str, _Check]] = MappingProxyType(
    {
        "type": (_are_types, f"one of {', '.join(FAMILIES)}, or a list of different ones"),
        "required": (_are_texts, "a list of different keys"),
        "enum": (lambda value: isinstance(value, list), "a list of values"),
        "items": (lambda value: _is_schema(value) or _are_schemas(value), "a schema"),
        "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
        "dependencies": _DEPENDENT,
        "dependentRequired": (_are_key_lists, "an object of lists of different keys"),
        "discriminator": (lambda value: isinstance(value, dict), "an object"),
        **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _SCHEMAS),
        **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _NAMED),
        **dict.fromkeys(
            ("additionalProperties", "additionalItems", "propertyNames", "not", "if", "then", "else", "contains"),
            _SCHEMA,
        ),
        **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), _SCHEMA),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBER),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
        **dict.fromkeys(("pattern", "format", "$ref", "$id"), _TEXT),
    }
)
