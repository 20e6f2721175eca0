"""Splits a JSON Schema into what a grammar enforces token by token and what is checked on the finished value.

    values of the document = values of `enforced` that pass the check        `enforced` accepts every one of them

Keywords that a grammar cannot express are rewritten as keywords that it can (`not` and `if` as alternatives, the names
of properties as patterns). Where no such form is exact, `enforced` leaves the keyword out, and `checked` names it.
The same is done with all keywords that become alternatives, if these are too many for a grammar together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Final

from pastalang import limits
from pastalang.program import types as t
from pastalang.program.visit import walk
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.schema.alternatives import with_alternatives, with_parts
from pastalang.values.schema.drafts import Schema, modern
from pastalang.values.schema.guard import OWN_IDENTIFIER, TooMuchWork, Work, find_multiplied, resolve, unescape
from pastalang.values.schema.keywords import (
    CHECKED,
    CHECKED_FORMATS,
    DEPENDENT,
    HOLDS_DATA,
    NAMED,
    is_constraint,
    is_unknown,
)
from pastalang.values.schema.negation import negation
from pastalang.values.schema.property_limits import with_limits

_DEFINITIONS: Final = ("$defs", "definitions")
_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_LEFT_OUT: Final = frozenset({*CHECKED, "uniqueItems", "propertyNames"})  # written anew, or checked
_MAX_WAYS: Final = 32  # alternatives of one `oneOf`
_MAX_CONDITIONS: Final = 5  # that hold together: each doubles the alternatives


@dataclass(frozen=True, slots=True)
class Split:
    """`checked` are JSON pointers of the keywords that only the finished value is checked for."""

    enforced: JsonValue
    checked: tuple[str, ...]


@lru_cache(maxsize=256)
def split_text(document: str) -> Split:
    """The split of a document that `find_hostile` has found safe, given as text."""
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
    """Whether a value of any of these types is checked when it is finished."""
    parts = (part for type in types for _, part in walk(type))
    return any(isinstance(part, t.Schema) and bool(split_text(part.document).checked) for part in parts)


@dataclass(slots=True)
class _Splitter:
    document: JsonValue
    work: Work | None  # None: no keyword becomes alternatives
    checked: dict[str, None] = field(default_factory=dict)
    rewritten: str | None = None  # the keyword that is being rewritten: its parts have no pointers of their own
    crowded: set[int] = field(default_factory=set)  # schemas whose conditions are too many together
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
                waiting += _references(part)
        return {key: part for key, part in found.items() if key != "$schema"} if isinstance(found, dict) else found

    def leave(self, pointer: str) -> None:
        """Leave a keyword to the check."""
        self.checked[self.rewritten or pointer] = None

    # ── one schema ───────────────────────────────────────────────────────────────────────────────────────

    def schema(self, schema: JsonValue | None, at: str) -> JsonValue:
        if not isinstance(schema, dict):
            return schema
        if self.work is not None:
            self.work.spend()
        self.note_crowded(schema)
        inner = {
            keyword: self.part(keyword, part, f"{at}/{_step(keyword)}")
            for keyword, part in schema.items()
            if keyword not in _LEFT_OUT and not _is_idle_identifier(keyword, schema, at)
        }
        rewritten = inner if self.work is None else with_alternatives(inner, self.document, self.work)
        found = self.with_unions(rewritten, schema, at)
        found = with_parts(found, [*self.negated(schema, at), *self.conditional(schema, at)])
        found, left = with_limits(found, schema, self.work)
        for keyword in (*left, *_unsupported(schema)):
            self.leave(f"{at}/{keyword}")
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

    def with_unions(self, schema: Schema, given: Schema, at: str) -> Schema:
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
        alone = self.each_alone(given["oneOf"])
        if alone is not None:
            return with_parts(found, [self.rewrite(alone, f"{at}/oneOf")])
        self.leave(f"{at}/oneOf")
        return with_parts(found, [{"anyOf": arms}])

    def each_alone(self, arms: JsonValue) -> JsonValue | None:
        """`oneOf` as `anyOf`: each alternative together with the negations of the others; None if one has none."""
        others = [self.negation(arm) for arm in arms] if isinstance(arms, list) else []
        found = [other for other in others if other is not None]
        if not isinstance(arms, list) or len(found) < len(arms) or prod(map(_ways, found)) > _MAX_WAYS:
            return None
        ways: list[JsonValue] = [{"allOf": [arm, *found[:at], *found[at + 1 :]]} for at, arm in enumerate(arms)]
        return {"anyOf": ways}

    def negated(self, schema: Schema, at: str) -> Iterator[JsonValue]:
        if "not" not in schema:
            return
        other = self.negation(schema["not"])
        if other is None:
            self.leave(f"{at}/not")
        else:
            yield self.rewrite(other, f"{at}/not")

    def conditional(self, schema: Schema, at: str) -> Iterator[JsonValue]:
        if "if" not in schema or not {"then", "else"} & set(schema):
            return
        then, otherwise = schema.get("then", {}), schema.get("else", {})
        is_free = self.work is not None and id(schema) not in self.crowded
        other = self.negation(schema["if"]) if is_free else None
        if other is not None:
            ways: list[JsonValue] = [{"allOf": [schema["if"], then]}, {"allOf": [other, otherwise]}]
            yield self.rewrite({"anyOf": ways}, f"{at}/if")
            return
        self.leave(f"{at}/if")
        if "then" in schema and "else" in schema and is_free:
            yield self.rewrite({"anyOf": [then, otherwise]}, f"{at}/if")

    def negation(self, schema: JsonValue) -> JsonValue | None:
        return None if self.work is None else negation(schema, self.document, self.work)

    def rewrite(self, schema: JsonValue, at: str) -> JsonValue:
        before, self.rewritten = self.rewritten, self.rewritten or at
        found = self.schema(schema, at)
        self.rewritten = before
        return found

    def note_crowded(self, schema: Schema) -> None:
        parts = schema.get("allOf")
        together = [schema, *(parts if isinstance(parts, list) else [])]
        conditions = [part for part in together if isinstance(part, dict) and "if" in part]
        if len(conditions) > _MAX_CONDITIONS:
            self.crowded.update(map(id, conditions))

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
        """Whether the schema at a pointer is inside what the reference leads to, directly or through others."""
        if reference not in self.closures:
            found, waiting = {reference}, [reference]
            while waiting:
                new = set(_references(resolve(waiting.pop(), self.document))) - found
                found |= new
                waiting += new
            self.closures[reference] = frozenset(found)
        return any(at == one or at.startswith(f"{one}/") for one in self.closures[reference])


def _ways(schema: JsonValue) -> int:
    return len(arms) if isinstance(schema, dict) and isinstance(arms := schema.get("anyOf"), list) else 1


def _conjuncts(schema: Schema) -> int:
    """How many schemas the grammar merges for one value."""
    own = any(is_constraint(keyword) for keyword in schema if keyword not in (*_COMBINING, "$ref"))
    parts = schema.get("allOf")
    several = sum(keyword in schema for keyword in ("$ref", "anyOf", "oneOf"))
    return own + several + (len(parts) if isinstance(parts, list) else 0)


def _unsupported(schema: Schema) -> Iterator[str]:
    """The keywords of the schema that only the finished value can be checked for."""
    if schema.get("uniqueItems") is True and schema.get("maxItems") not in (0, 1):
        yield "uniqueItems"
    if "contains" in schema and not (schema.get("minContains") == 0 and "maxContains" not in schema):
        yield "contains"
    for keyword in ("unevaluatedProperties", "unevaluatedItems"):
        if schema.get(keyword, True) not in (True, {}):
            yield keyword


def _is_idle_identifier(keyword: str, schema: Schema, at: str) -> bool:
    """Whether the schema has an identifier that changes the meaning of no reference."""
    identifier = schema.get(keyword)
    if keyword not in ("$id", "id") or not isinstance(identifier, str) or identifier.startswith(OWN_IDENTIFIER):
        return False
    return at == "#" or not any(True for _ in _references(schema))


def _references(schema: JsonValue | None) -> Iterator[str]:
    """All references in the schema, but those in the definitions of a whole document."""
    if isinstance(schema, dict):
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
