"""Exports a hole type as a JSON Schema document (draft 2020-12) that accepts the same values.

Formats and dates have a `pattern` too, so that a validator that ignores `format` still checks them. What JSON Schema
cannot express is left out: token limits, `verbatim`, and the order of decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES
from pastalang.values.json import JsonValue, parse_json, pointer_step, write_json
from pastalang.values.patterns import FORMATS, STANDARD_FORMATS, anchored, patterns_of

Document: TypeAlias = dict[str, JsonValue]

# The formats of JSON Schema that mean the same; those of a moment allow no offset to be left out.
_FORMATS: Final[Mapping[t.Type, str]] = {t.Temporal(t.Moment.DATE): "date", t.Uuid(): "uuid"}


def schema_text(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> str:
    """The document as compact JSON text, numbers exact."""
    return write_json(schema_of(type, types))


def schema_of(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> Document:
    """The document as an exact JSON value."""
    writer = _Writer(types)
    document = writer.schema(type)
    while writer.waiting:
        name = writer.waiting.pop()
        writer.definitions[name] = writer.schema(types[name])
    return {**document, "$defs": dict(writer.definitions)} if writer.definitions else document


@dataclass(frozen=True, slots=True)
class _Writer:
    types: Mapping[str, t.Type]
    definitions: dict[str, JsonValue] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    embedded: list[str] = field(default_factory=list)

    def schema(self, type: t.Type) -> Document:
        match type:
            case t.Array(item=item):
                return {
                    "type": "array",
                    "items": self.schema(item),
                    **_counts("Items", type.min_items, type.max_items),
                    **({"uniqueItems": True} if type.unique else {}),
                }
            case t.Tuple(items=items):
                places: list[JsonValue] = [self.schema(item) for item in items]
                fixed: Document = {"type": "array", "minItems": len(items), "maxItems": len(items)}
                return {**fixed, "prefixItems": places, "items": False} if places else fixed
            case t.Map(value=value):
                counts = _counts("Properties", type.min_items, type.max_items)
                if type.key_pattern is None:
                    return {"type": "object", "additionalProperties": self.schema(value), **counts}
                named: Document = {anchored(type.key_pattern): self.schema(value)}
                return {"type": "object", "patternProperties": named, "additionalProperties": False, **counts}
            case t.Object():
                return self.object(type)
            case t.Union(arms=arms):
                return self.union(arms)
            case t.Named(name=name):
                if name not in self.definitions and name not in self.waiting:
                    self.definitions[name] = True  # a placeholder until `schema_of` writes the definition
                    self.waiting.append(name)
                return {"$ref": f"#/$defs/{pointer_step(name)}"}
            case t.Schema(document=document):
                return self.embed(parse_json(document), document)
            case _:
                return _scalar(type)

    def object(self, type: t.Object) -> Document:
        properties: Document = {place.key: self.property(place) for place in type.fields}
        required: list[JsonValue] = [place.key for place in type.fields if place.default is None]
        return {
            **({"title": type.name} if type.name else {}),
            **({"description": type.description} if type.description else {}),
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def property(self, place: t.Field) -> Document:
        schema = self.schema(_without_null(place))
        if place.description:
            schema = {**schema, "description": place.description}
        if place.default is not None and not place.default.is_absent:
            schema = {**schema, "default": parse_json(place.default.json)}
        return schema

    def union(self, arms: tuple[t.Type, ...]) -> Document:
        """The literals of a union become one `enum`."""
        literals: list[JsonValue] = [arm.value for arm in arms if isinstance(arm, t.Literal)]
        if len(literals) < 2:
            return {"anyOf": [self.schema(arm) for arm in arms]}
        nulls: list[JsonValue] = [None] if t.Null() in arms else []
        others = [arm for arm in arms if not isinstance(arm, t.Literal | t.Null)]
        enum: Document = {"enum": [*literals, *nulls]}
        return {"anyOf": [enum, *map(self.schema, others)]} if others else enum

    def embed(self, document: JsonValue, text: str) -> Document:
        """An embedded document. If it has references, an `$id` of its own makes them refer to it."""
        if not isinstance(document, dict):
            return {} if document else {"not": {}}
        if '"$ref"' not in text or "$id" in document:
            return document
        if text not in self.embedded:
            self.embedded.append(text)
        return {"$id": f"urn:pasta:schema:{self.embedded.index(text)}", **document}


def _without_null(place: t.Field) -> t.Type:
    """The type of a key, whose null is no value if it means that the key is left out."""
    if place.default is None or not place.default.is_absent or not isinstance(place.type, t.Union):
        return place.type
    arms = tuple(arm for arm in place.type.arms if arm != t.Null())
    return arms[0] if len(arms) == 1 else t.Union(arms, place.type.discriminator)


def _scalar(type: t.Type) -> Document:
    match type:
        case t.String():
            return _string(type)
        case t.Regex(pattern=pattern):
            return {"type": "string", "pattern": anchored(pattern)}
        case t.Integer():
            return {"type": "integer", **_bounds(type)}
        case t.Number():
            return {"type": "number", **_bounds(type)}
        case t.Boolean():
            return {"type": "boolean"}
        case t.Null():
            return {"type": "null"}
        case t.Literal(value=value):
            return {"const": value}
        case _ if isinstance(type, t.Patterned):
            (pattern,) = patterns_of(type)
            form: Document = {"format": _FORMATS[type]} if type in _FORMATS else {}
            return {"type": "string", **form, "pattern": anchored(pattern)}
        case t.Verbatim():
            return {"type": "string", "minLength": 1}
        case t.Anything():
            return {}
        case t.Array() | t.Tuple() | t.Map() | t.Object() | t.Union() | t.Named() | t.Schema():
            raise AssertionError("structures are written by _Writer")
        case _:
            assert_never(type)


def _string(type: t.String) -> Document:
    schema: Document = {
        "type": "string",
        **({"minLength": type.min_chars} if type.min_chars else {}),
        **({"maxLength": type.max_chars} if type.max_chars is not None else {}),
    }
    patterns = [] if type.pattern is None else [anchored(type.pattern)]
    if type.format is not None:
        if type.format in STANDARD_FORMATS:
            schema["format"] = type.format
        patterns.insert(0, anchored(FORMATS[type.format].pattern))
    if patterns:
        schema["pattern"] = patterns[0]
    if len(patterns) > 1:
        schema["allOf"] = [{"pattern": patterns[1]}]
    return schema


def _bounds(type: t.Integer | t.Number) -> Document:
    bounds: Document = {
        "minimum": type.minimum,
        "maximum": type.maximum,
        "exclusiveMinimum": type.exclusive_minimum,
        "exclusiveMaximum": type.exclusive_maximum,
        "multipleOf": type.multiple_of,
    }
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _counts(noun: str, minimum: int, maximum: int | None) -> Document:
    return {**({f"min{noun}": minimum} if minimum else {}), **({f"max{noun}": maximum} if maximum is not None else {})}
