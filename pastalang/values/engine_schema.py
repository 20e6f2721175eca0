"""From a hole type, or a JSON Schema document, to the document that a grammar engine is given.

It means the same, in the words that the engine enforces: patterns without short-hands, anchored; formats as
the patterns that reading uses (engines let 30 February pass). What no engine enforces is taken out and named:
`uniqueItems` is checked when the value is finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pastalang.program import types as t
from pastalang.values.formats import FORMATS
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.lengths import NO_TYPES
from pastalang.values.patterns import engine_pattern, whole_pattern
from pastalang.values.schema.carry import in_cases
from pastalang.values.schema.keywords import CHECKED_AFTER, NAMED, is_constraint
from pastalang.values.to_schema import STANDARD_FORMATS, anchored, schema_of

_DATA: Final = frozenset({"const", "enum"})
_KEPT: Final = frozenset({"$defs", "definitions", "$id"})
_REWRITTEN: Final = frozenset({"pattern", "format", "discriminator"})


@dataclass(frozen=True, slots=True)
class EngineSchema:
    """`document` is compact JSON; `checked_after` are the keywords that only reading checks."""

    document: str
    checked_after: tuple[str, ...]


def engine_schema(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> EngineSchema:
    return _rewritten(schema_of(type, types))


def engine_document(document: str) -> EngineSchema:
    """Of a document as it stands in a `Schema` type. Raises `RegexError` for a pattern that cannot be enforced."""
    return _rewritten(parse_json(document))


def _rewritten(schema: JsonValue) -> EngineSchema:
    rewriting = _Rewriting(schema)
    return EngineSchema(write_json(rewriting.schema(schema)), tuple(rewriting.left_out))


@dataclass(frozen=True, slots=True)
class _Rewriting:
    document: JsonValue
    left_out: list[str] = field(default_factory=list)

    def schema(self, schema: JsonValue) -> JsonValue:
        if isinstance(schema, list):
            return [self.schema(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        result: dict[str, JsonValue] = {}
        for key, value in schema.items():
            if key in CHECKED_AFTER:
                if value is not False and key not in self.left_out:
                    self.left_out.append(key)
            elif key in _DATA:
                result[key] = value
            elif key in NAMED and isinstance(value, dict):
                result[key] = self.named(key, value)
            elif key not in _REWRITTEN and (is_constraint(key) or key in _KEPT):
                result[key] = self.schema(value)
        return self.with_patterns(in_cases(result, self.document), schema)

    def named(self, keyword: str, parts: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if keyword != "patternProperties":
            return {name: self.schema(part) for name, part in parts.items()}
        return {_portable(search): self.schema(part) for search, part in parts.items()}

    def with_patterns(self, result: dict[str, JsonValue], schema: dict[str, JsonValue]) -> JsonValue:
        """A pattern and a format are both patterns; a second one goes into `allOf`."""
        patterns = [_portable(schema["pattern"])] if isinstance(schema.get("pattern"), str) else []
        if schema.get("format") in STANDARD_FORMATS:
            patterns.append(anchored(engine_pattern(FORMATS[str(schema["format"])].pattern)))
        different = list(dict.fromkeys(patterns))
        if different:
            result["pattern"] = different[0]
        if len(different) > 1:
            others = result.get("allOf", [])
            assert isinstance(others, list)
            result["allOf"] = [*others, {"pattern": different[1]}]
        return result


def _portable(search: JsonValue) -> str:
    return anchored(engine_pattern(whole_pattern(str(search))))
