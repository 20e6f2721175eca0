"""Imports a JSON Schema document as a hole type.

The type may be *narrower* than the schema, never wider: the schema accepts every value that the type lets a model
write. Where the type is narrower, a note says so: keys without a name are never written. A part that only a grammar
engine can enforce becomes an opaque `schema(...)` hole. Any other keyword is refused with its JSON pointer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from types import MappingProxyType
from typing import Final, TypeAlias

from pastalang import limits
from pastalang.program import types as t
from pastalang.program.regex import RegexError
from pastalang.program.visit import walk
from pastalang.values import patterns
from pastalang.values.conversion import (
    Conversion,
    Converted,
    Note,
    NotExpressible,
    definition_name,
    refuses_large_types,
    type_name,
)
from pastalang.values.fit import document_mismatches, find_discriminator
from pastalang.values.json import JsonValue, NotJson, decimal_text, parse_json, pointer_step, write_json
from pastalang.values.lengths import has_numbers, types_without_values
from pastalang.values.paths import Mismatch
from pastalang.values.patterns import FORMATS, MOMENTS, STANDARD_FORMATS, anchored, whole_pattern
from pastalang.values.schema.guard import OWN_IDENTIFIER, find_in_schemas, find_unsafe, is_count, resolve, unescape
from pastalang.values.schema.keywords import (
    ANNOTATIONS,
    CHECKED,
    CHECKED_FORMATS,
    FAMILIES,
    REFUSED_FORMATS,
    is_constraint,
    is_refused,
    is_unknown,
    modern,
    places,
    why_refused,
)
from pastalang.values.schema.split import DisjointSchemas, split_text

Keywords: TypeAlias = Mapping[str, JsonValue]

_REPEATED: Final = "several parts would each repeat most of its definitions"

# Patterns that the export writes for hole types, so that an exported schema is imported unchanged.
_OWN_PATTERNS: Final[Mapping[str, t.Type]] = {
    anchored(MOMENTS[t.Moment.DATETIME]): t.Temporal(t.Moment.DATETIME),
    anchored(MOMENTS[t.Moment.TIME]): t.Temporal(t.Moment.TIME),
} | {anchored(FORMATS[name].pattern): t.String(format=name) for name in FORMATS if name not in STANDARD_FORMATS}


class SchemaRefused(Exception):
    """A keyword that no hole type can express here. `keyword` is the last step of its JSON pointer."""

    def __init__(self, keyword: str, reason: str) -> None:
        self.keyword = keyword
        self.reason = reason
        super().__init__(reason)


class NoValue(SchemaRefused):
    """A schema that accepts no value at all."""


def type_of_schema(document: str | JsonValue, *, name: str = "Schema") -> Converted:
    """The hole type of a document, given as JSON text or as its exact value; raises `NotExpressible`."""
    if isinstance(document, str):
        try:
            document = parse_json(document)
        except NotJson as problem:
            raise NotExpressible(name, [Mismatch((), str(problem))]) from None
    hostile = find_unsafe(document)
    if hostile is not None:
        raise NotExpressible(name, [_problem(*hostile)])
    return _convert(document, name)


def _convert(document: JsonValue, name: str) -> Converted:
    title = document.get("title") if isinstance(document, dict) else None
    conversion = _Conversion(document, type_name(str(title or name)))
    with refuses_large_types(name):
        found = conversion.convert(document, "#")
    empty = types_without_values(conversion.types)
    if empty and not conversion.problems:
        if has_no_finite_value(document):
            pointer = next(key for key, name in conversion.names.items() if name == empty[0])
            conversion.problems.append(_problem(pointer, "requires itself, so no value can end"))
        else:  # a value can end only by leaving out a key with a default, and an object type writes it
            return _Conversion(document, conversion.root_name).as_one_hole()
    if conversion.problems:
        raise NotExpressible(name, conversion.problems)
    if _repeats_definitions(found, conversion.types, document):
        return _Conversion(document, conversion.root_name).as_one_hole(_REPEATED)
    return Converted(found, MappingProxyType(conversion.types), tuple(dict.fromkeys(conversion.notes)))


def has_no_finite_value(document: JsonValue) -> bool:
    """Returns True if certainly no value can end, even without its optional keys."""
    minimal = _Conversion(document, "Root", keep_optional=False)
    with suppress(NotExpressible), refuses_large_types(minimal.root_name):
        minimal.convert(document, "#")
    return bool(types_without_values(minimal.types))


@dataclass
class _Conversion(Conversion):
    """The key of a part is its JSON pointer."""

    document: JsonValue
    root_name: str
    keep_optional: bool = True
    disjoint: DisjointSchemas = field(init=False)

    def __post_init__(self) -> None:
        self.disjoint = DisjointSchemas(self.document)

    def convert(self, schema: JsonValue, pointer: str) -> t.Type:
        """The type at `pointer`. Keeps a refusal and goes on, so that all are reported at once."""
        try:
            return self.resolved(schema, pointer)
        except (SchemaRefused, RegexError) as problem:
            return self.refuse(problem, pointer)

    def refuse(self, problem: SchemaRefused | RegexError, pointer: str) -> t.Type:
        if isinstance(problem, SchemaRefused):
            self.problems.append(_problem(f"{pointer}/{problem.keyword}", problem.reason))
        else:
            self.problems.append(_problem(f"{pointer}/pattern", problem.message))
        return t.Null()

    def resolved(self, schema: JsonValue, pointer: str) -> t.Type:
        """Follows references. A schema that is already being converted is recursive and becomes a name."""
        if isinstance(schema, dict) and "$ref" in schema:
            if {keyword for keyword in schema if is_constraint(keyword)} != {"$ref"}:
                return self.opaque(schema, pointer)
            target = str(schema["$ref"])
            return self.resolved(resolve(target, self.document), target)
        return self.once(pointer, lambda: self.schema(schema, pointer))

    def bare_name(self, key: str) -> str:
        return self.root_name if key == "#" else type_name(key.rpartition("/")[2])

    def note(self, pointer: str, text: str) -> None:
        self.notes.append(Note(pointer, text))

    # ── one schema ───────────────────────────────────────────────────────────────────────────────────────

    def schema(self, schema: JsonValue, pointer: str) -> t.Type:
        if schema is True or schema == {}:
            return t.Anything()
        if not isinstance(schema, dict):
            raise NoValue("", "`false` accepts no value") if schema is False else SchemaRefused("", "must be an object")
        identifier = schema.get("$id")
        if isinstance(identifier, str) and identifier.startswith(OWN_IDENTIFIER):
            return t.Schema(write_json({key: part for key, part in schema.items() if key != "$id"}))
        if identifier is not None and pointer != "#" and '"$ref"' in write_json(dict(schema)):
            raise SchemaRefused("$id", "changes the meaning of references; use `$defs` in one document")
        constraints = {keyword for keyword in schema if is_constraint(keyword)}
        for keyword in schema:
            if is_refused(keyword):
                raise SchemaRefused(keyword, why_refused(keyword))
            if is_unknown(keyword):
                self.note(pointer, f"`{keyword}` is not a keyword of JSON Schema and is ignored")
        if schema.get("not") in (True, {}):
            raise NoValue("not", "refuses every value")
        if not constraints:
            return t.Anything()
        if constraints & {"enum", "const"}:
            return self.values(schema, constraints, pointer)
        needs_grammar = constraints & set(CHECKED) or schema.get("format") in CHECKED_FORMATS
        if needs_grammar or not self.is_plain(schema, constraints):
            return self.opaque(schema, pointer)
        if constraints & {"anyOf", "oneOf"}:
            return self.union(schema, pointer, "anyOf" if "anyOf" in schema else "oneOf")
        if constraints == {"allOf"}:
            return self.convert(_listed(schema, "allOf")[0], f"{pointer}/allOf/0")
        kinds = self.kinds(schema, constraints, pointer)
        arms = [self.kind(kind, schema, pointer) for kind in kinds]
        return arms[0] if len(arms) == 1 else t.Union(tuple(arms))

    def is_plain(self, schema: Keywords, constraints: set[str]) -> bool:
        """Returns True if the schema has at most one of `anyOf`, `oneOf` and `allOf`, and no other keywords with it."""
        combined = constraints & {"anyOf", "oneOf", "allOf"}
        if combined == {"allOf"}:
            only = isinstance(schema["allOf"], list) and len(schema["allOf"]) == 1
            return only and (constraints == {"allOf"} or _is_second_pattern(schema))
        return not combined or (constraints <= {*combined, "discriminator"} and len(combined) == 1)

    def kinds(self, schema: Keywords, constraints: set[str], pointer: str) -> list[str]:
        given = schema.get("type")
        if given is not None:
            kinds = [given] if isinstance(given, str) else _listed(schema, "type").copy()
            if "number" in kinds and "integer" in kinds:
                kinds.remove("integer")
            return [str(kind) for kind in kinds]
        meant = [kind for kind, keywords in FAMILIES.items() if constraints & keywords and kind != "integer"]
        if len(meant) != 1:
            raise SchemaRefused("type", f"is missing, and {', '.join(sorted(constraints))} fit several types")
        self.note(pointer, f"the schema has no `type`; {meant[0]} is assumed from its keywords")
        return meant

    def kind(self, kind: str, schema: Keywords, pointer: str) -> t.Type:
        match kind:
            case "string":
                if _is_remark_format(schema):
                    self.note(pointer, f"the format {schema['format']} is not known and is ignored")
                return _string_type(schema)
            case "integer":
                return _integer_type(schema)
            case "number":
                return _number_type(schema)
            case "boolean":
                return t.Boolean()
            case "null":
                return t.Null()
            case "array":
                return self.array(schema, pointer)
            case _:
                return self.object(schema, pointer)

    def values(self, schema: Keywords, constraints: set[str], pointer: str) -> t.Type:
        """The values of an enum, without those that the other keywords of the schema refuse."""
        values = _listed(schema, "enum") if "enum" in schema else [schema["const"]]
        others = constraints - ({"enum"} if "enum" in schema else {"const"})
        rest: JsonValue = {keyword: schema[keyword] for keyword in others}
        if "$ref" in write_json(rest):
            return self.opaque(schema, pointer)
        kept = [value for value in values if not rest or not document_mismatches(write_json(rest), value)]
        if not kept:
            raise NoValue("enum" if "enum" in schema else "const", "has no value that the other keywords accept")
        arms = tuple(dict.fromkeys(_exactly(value) for value in kept))
        return arms[0] if len(arms) == 1 else t.Union(arms, find_discriminator(arms))

    def union(self, schema: Keywords, pointer: str, keyword: str) -> t.Type:
        parts = _listed(schema, keyword)
        arms: list[t.Type] = []
        for at, part in enumerate(parts):
            arm = self.convert(part, f"{pointer}/{keyword}/{at}")
            arms.extend(arm.arms if isinstance(arm, t.Union) else [arm])
        if keyword == "oneOf" and len(arms) > 1 and not self.disjoint.are_disjoint(parts):
            return self.opaque(schema, pointer)
        different = tuple(dict.fromkeys(arms))
        if t.Anything() in different:
            return t.Anything()
        return different[0] if len(different) == 1 else t.Union(different, find_discriminator(different))

    # ── arrays ───────────────────────────────────────────────────────────────────────────────────────────

    def array(self, schema: Keywords, pointer: str) -> t.Type:
        minimum, maximum = _lengths(schema, "minItems", "maxItems")
        unique = schema.get("uniqueItems") is True
        prefix, rest, word = places(schema)
        if prefix is None:
            item = self.convert(schema.get("items", True), f"{pointer}/items")
            return t.Array(item, minimum, maximum, unique=unique)
        if unique or minimum != len(prefix) or (rest is not False and maximum != len(prefix)):
            return self.opaque(schema, pointer)
        return t.Tuple(tuple(self.convert(part, f"{pointer}/{word}/{at}") for at, part in enumerate(prefix)))

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────

    def object(self, schema: Keywords, pointer: str) -> t.Type:
        if "properties" not in schema and "required" not in schema:
            return self.map(schema, pointer)
        if {"patternProperties", "propertyNames", "minProperties", "maxProperties"} & set(schema):
            return self.opaque(schema, pointer)
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise SchemaRefused("properties", "must be an object, and `required` a list")
        extra = schema.get("additionalProperties", True)
        unnamed = [str(key) for key in dict.fromkeys(map(str, required)) if key not in properties]
        if unnamed and extra is False:
            raise SchemaRefused("required", f"requires {unnamed[0]!r}, which `additionalProperties` forbids")
        if extra is not False:
            self.note(pointer, "the schema allows further keys; none are written or read")
        written = {key: part for key, part in properties.items() if self.keep_optional or key in required}
        found = [self.field(key, part, key in required, pointer) for key, part in written.items()]
        fields = [field for field in found if field is not None]
        fields += [t.Field(key, self.convert(extra, f"{pointer}/additionalProperties")) for key in unnamed]
        title, about = schema.get("title"), schema.get("description")
        return t.Object(
            tuple(fields),
            name=type_name(title) if isinstance(title, str) else definition_name(pointer),
            description=about if isinstance(about, str) else None,
        )

    def field(self, key: str, schema: JsonValue, is_required: bool, pointer: str) -> t.Field | None:
        """The field of a key; None if the key has no value and may be left out."""
        here = f"{pointer}/properties/{pointer_step(key)}"
        try:
            type = self.resolved(schema, here)
        except (SchemaRefused, RegexError) as problem:
            if isinstance(problem, NoValue) and not is_required:
                self.note(here, "no value is possible; the key is never written")
                return None
            type = self.refuse(problem, here)
        about = schema.get("description") if isinstance(schema, dict) else None
        default = None
        if isinstance(schema, dict) and "default" in schema and not is_required:
            if not self.fits(type, schema["default"]):
                self.note(here, "its default does not fit its type; the key is always written and read")
            else:
                default = t.Default(write_json(schema["default"]))
        elif not is_required:
            type, default = self.optional(type, here)
        return t.Field(key, type, description=about if isinstance(about, str) else None, default=default)

    def optional(self, type: t.Type, here: str) -> tuple[t.Type, t.Default | None]:
        """A key that may be left out is null in what the model writes, unless it has only one value or may be null."""
        if isinstance(type, t.Literal) or self.fits(type, None):
            self.note(here, "the key is optional in the schema; it is always written and read")
            return type, None
        self.note(here, "the key is optional in the schema; it is left out where the model writes null")
        arms = (*(type.arms if isinstance(type, t.Union) else (type,)), t.Null())
        return t.Union(arms, find_discriminator(arms)), t.ABSENT

    def map(self, schema: Keywords, pointer: str) -> t.Type:
        minimum, maximum = _lengths(schema, "minProperties", "maxProperties")
        named, extra = schema.get("patternProperties"), schema.get("additionalProperties", True)
        if extra is False and not named and not minimum:
            return t.Object(())
        try:
            pattern = _key_pattern(schema.get("propertyNames", True))
        except SchemaRefused:
            return self.opaque(schema, pointer)
        if named is None:
            return t.Map(self.convert(extra, f"{pointer}/additionalProperties"), pattern, minimum, maximum)
        if not isinstance(named, dict) or len(named) != 1 or extra is not False or "propertyNames" in schema:
            return self.opaque(schema, pointer)
        ((search, part),) = named.items()
        value = self.convert(part, f"{pointer}/patternProperties/{pointer_step(search)}")
        return t.Map(value, whole_pattern(search), minimum, maximum)

    # ── opaque parts ─────────────────────────────────────────────────────────────────

    def as_one_hole(self, why: str | None = None) -> Converted:
        assert isinstance(self.document, dict)
        try:
            found = self.opaque(self.document, "#")
        except SchemaRefused as refusal:
            raise NotExpressible(self.root_name, [_problem(f"#/{refusal.keyword}", refusal.reason)]) from None
        if why is not None:
            self.note("#", why)
        return Converted(found, MappingProxyType({}), tuple(self.notes))

    def opaque(self, schema: Keywords, pointer: str) -> t.Type:
        """The part as one hole, with the definitions it refers to."""
        if not self.keep_optional:
            return t.Anything()
        document = _opaque_document(schema, self.document, is_root=pointer == "#")
        self.note(pointer, "is enforced as one hole, so its parts are not decoded in parallel")
        for checked in split_text(document).checked:
            self.note(checked if _is_definition(checked) else pointer + checked[1:], "is checked after decoding")
        return t.Schema(document)


def _listed(schema: Keywords, keyword: str) -> list[JsonValue]:
    found = schema[keyword]
    if not isinstance(found, list) or not found:
        raise SchemaRefused(keyword, "must be a list that is not empty")
    return found


def _problem(pointer: str, reason: str) -> Mismatch:
    return Mismatch((("#" + pointer.removeprefix("#")).rstrip("/"),), reason)


# ── scalars ────────────────────────────────────────────────────────────────────────────────────────────


def _string_type(schema: Keywords) -> t.Type:
    minimum, maximum = _lengths(schema, "minLength", "maxLength")
    pattern, format = schema.get("pattern"), schema.get("format")
    further = _second_pattern(schema)
    if isinstance(pattern, str) and pattern in _OWN_PATTERNS and format is None:
        found = _OWN_PATTERNS[pattern]
        if isinstance(found, t.String):
            whole = None if further is None else patterns.whole_pattern(further)
            return t.String(min_chars=minimum, max_chars=maximum, pattern=whole, format=found.format)
        if (minimum, maximum, further) == (0, None, None):
            return found
    name = None if format is None else _format(format)
    if name is not None and pattern == anchored(FORMATS[name].pattern):
        pattern, further = further, None
    if further is not None:
        raise SchemaRefused("allOf", "two patterns of one string cannot be enforced together")
    whole = patterns.whole_pattern(pattern) if isinstance(pattern, str) else None
    if (minimum, maximum, whole) == (0, None, None) and name in ("date", "uuid"):
        return t.Temporal(t.Moment.DATE) if name == "date" else t.Uuid()
    return t.String(min_chars=minimum, max_chars=maximum, pattern=whole, format=name)


def _integer_type(schema: Keywords) -> t.Type:
    low, high, above, below, step = _bounds(schema)
    if step is not None and step != step.to_integral_value():
        raise SchemaRefused("multipleOf", f"an integer cannot be limited to multiples of {decimal_text(step)}")
    found = t.Integer(
        minimum=None if low is None else ceil(Fraction(low)),
        maximum=None if high is None else floor(Fraction(high)),
        exclusive_minimum=None if above is None else floor(Fraction(above)),
        exclusive_maximum=None if below is None else ceil(Fraction(below)),
        multiple_of=None if step is None else int(step),
    )
    if not has_numbers(found):
        raise NoValue(_a_bound(schema), "no integer lies between the bounds")
    return found


def _number_type(schema: Keywords) -> t.Type:
    low, high, above, below, step = _bounds(schema)
    found = t.Number(low, high, above, below, step)
    if not has_numbers(found):
        raise NoValue(_a_bound(schema), "no number lies between the bounds")
    return found


def _exactly(value: JsonValue) -> t.Type:
    """The type that has only this value."""
    match value:
        case None:
            return t.Null()
        case list():
            return t.Tuple(tuple(map(_exactly, value)))
        case dict():
            return t.Object(tuple(t.Field(key, _exactly(part)) for key, part in value.items()))
        case Decimal() if value == value.to_integral_value() and abs(value.adjusted()) < 300:
            return t.Literal(int(value))
        case _:
            return t.Literal(value)


def _key_pattern(schema: JsonValue) -> str | None:
    """The pattern that `propertyNames` asks of a key; None if it may be any string."""
    if not isinstance(schema, dict) or "const" in schema or "enum" in schema:
        return None if schema is True else _listed_keys(schema)
    used = set(schema) - {"type", *ANNOTATIONS}
    match schema:
        case {"pattern": str(search)} if used == {"pattern"}:
            return patterns.whole_pattern(search)
        case {"format": str(name)} if used == {"format"}:
            known = _format(name)
            return None if known is None else FORMATS[known].pattern
        case _ if used <= {"minLength", "maxLength"}:
            minimum, maximum = _length(schema, "minLength"), _length(schema, "maxLength")
            is_any = (minimum, maximum) == (None, None)
            return None if is_any else rf"[\s\S]{{{minimum or 0},{'' if maximum is None else maximum}}}"
        case _:
            raise SchemaRefused("propertyNames", "may hold a pattern, a format, lengths, or the keys themselves")


def _listed_keys(schema: JsonValue) -> str:
    """A pattern of the keys that an enum or a constant lists. Values that are no strings are no keys."""
    listed = schema.get("enum", [schema.get("const")]) if isinstance(schema, dict) else []
    others = set(schema) - {"enum", "const", "type", *ANNOTATIONS} if isinstance(schema, dict) else ()
    keys = [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
    if others or not keys or (isinstance(schema, dict) and {"enum", "const"} <= set(schema)):
        raise SchemaRefused("propertyNames", "allows no key" if not others else "may hold nothing next to the keys")
    return "|".join(map(patterns.escaped, keys))


def _lengths(schema: Keywords, least: str, most: str) -> tuple[int, int | None]:
    minimum, maximum = _length(schema, least) or 0, _length(schema, most)
    if maximum is not None and minimum > maximum:
        raise SchemaRefused(least, f"{minimum} is more than `{most}` {maximum}")
    return minimum, maximum


def _length(schema: Keywords, keyword: str) -> int | None:
    value = schema.get(keyword)
    if value is not None and not is_count(value):
        raise SchemaRefused(keyword, "must be a whole number that is not negative")
    return None if value is None else int(value)  # type: ignore[arg-type]


def _is_second_pattern(schema: Keywords) -> bool:
    match schema.get("allOf"):
        case [{"pattern": str(), **rest}]:
            return schema.get("type") == "string" and "pattern" in schema and not rest
        case _:
            return False


def _second_pattern(schema: Keywords) -> str | None:
    """The pattern in an `allOf`, which the export writes for a string with both a format and a pattern."""
    match schema.get("allOf"):
        case [{"pattern": str(pattern), **rest}] if not rest:
            return pattern
        case None:
            return None
        case _:
            raise SchemaRefused("allOf", "cannot be combined with a string")


def _is_remark_format(schema: Keywords) -> bool:
    """Returns True if the schema names a format that the standard does not know, which has no effect on values."""
    name = schema.get("format")
    return name is not None and name not in {*STANDARD_FORMATS, *CHECKED_FORMATS, *REFUSED_FORMATS}


def _format(name: JsonValue) -> str | None:
    if name in REFUSED_FORMATS:
        raise SchemaRefused("format", f"the format {name} cannot be enforced")
    return str(name) if name in STANDARD_FORMATS else None


_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def _bounds(schema: Keywords) -> list[Decimal | None]:
    bounds = [_number(schema, name) for name in (*_BOUNDS, "multipleOf")]
    if (step := bounds[-1]) is not None and step <= 0:
        raise SchemaRefused("multipleOf", "must be above 0")
    return bounds


def _number(schema: Keywords, keyword: str) -> Decimal | None:
    value = schema.get(keyword)
    if value is None:
        return None
    if isinstance(value, bool):
        raise SchemaRefused(keyword, "is true or false, as in draft 4; write the bound itself")
    if not isinstance(value, int | Decimal):
        raise SchemaRefused(keyword, "must be a number")
    return Decimal(value)


def _a_bound(schema: Keywords) -> str:
    return next(name for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum") if name in schema)


# ── parts that are one hole ────────────────────────────────────────────────────────────────────────────


def _opaque_document(schema: Mapping[str, JsonValue], document: JsonValue, *, is_root: bool) -> str:
    """The part as canonical text, with the definitions it refers to. Raises `SchemaRefused`."""
    text = write_json(dict(schema))
    outside = [found for found in re.findall(r'"\$ref":"([^"]*)"', text) if not _is_definition(found)]
    if outside and not is_root:
        raise SchemaRefused("$ref", f"`{outside[0]}` points outside a part that is enforced as one hole; use `$defs`")
    whole = dict(schema)
    if '"$ref"' in text and isinstance(document, dict):
        whole |= _definitions(text, document)
    refused = find_in_schemas(whole, opaque_problem)
    if refused is not None:
        raise SchemaRefused(refused[0].lstrip("/"), refused[1])
    return write_json(modern(whole))


def opaque_problem(schema: dict[str, JsonValue]) -> tuple[str, str] | None:
    """Why a schema inside an opaque part cannot be enforced, as (keyword, reason)."""
    if schema.get("format") in REFUSED_FORMATS:
        return "format", f"the format {schema['format']} cannot be enforced"
    return next(((keyword, why_refused(keyword)) for keyword in schema if is_refused(keyword)), None)


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


def _is_definition(pointer: str) -> bool:
    """Whether it is that of a definition, or of a part of one."""
    return pointer.startswith(("#/$defs/", "#/definitions/"))


def _repeats_definitions(type: t.Type, types: Mapping[str, t.Type], document: JsonValue) -> bool:
    """Returns True if the parts that are one hole, with copies of what they refer to, far exceed the schema."""
    parts = (part for one in (type, *types.values()) for _, part in walk(one))
    copies = sum(map(len, {part.document for part in parts if isinstance(part, t.Schema)}))
    return copies > limits.MAX_SCHEMA_COPIES * max(len(write_json(document)), limits.SMALL_SCHEMA_BYTES)
