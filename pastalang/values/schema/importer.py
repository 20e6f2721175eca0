"""Imports a JSON Schema document as a hole type.

The type may be *narrower* than the schema, never wider: the schema accepts every value that the type lets a model
write. Where the type is narrower, a note says so: keys without a name are never written. A part that only a grammar
engine can enforce becomes an opaque `schema(...)` hole. Any other keyword is refused with its JSON pointer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
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
from pastalang.values.json import (
    JsonValue,
    NotJson,
    NotJsonPart,
    decimal_text,
    exact_json,
    parse_json,
    pointer_step,
    same_json,
    write_json,
)
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


class _OneHole(Exception):
    """A keyword of an object that only a grammar engine can enforce."""

    def __init__(self, keyword: str) -> None:
        self.keyword = keyword
        super().__init__(keyword)


@dataclass(frozen=True, slots=True)
class _Member:
    """A key of an object, and the schemas of its value by their pointers. `forbidden_by` is a keyword of the object."""

    key: str
    schemas: Mapping[str, JsonValue]
    is_required: bool
    forbidden_by: str | None


def type_of_schema(document: object, *, name: str = "Schema") -> Converted:
    """The hole type of a document, given as JSON text or as what `json.loads` makes of it; raises `NotExpressible`."""
    found = exact_document(document, name=name)
    hostile = find_unsafe(found)
    if hostile is not None:
        raise NotExpressible(name, [_problem(*hostile)])
    return _convert(found, name)


def exact_document(document: object, *, name: str = "Schema") -> JsonValue:
    """The exact value of a document. Raises `NotExpressible` with the place of what is no JSON."""
    try:
        return parse_json(document) if isinstance(document, str) else exact_json(document)
    except NotJsonPart as problem:
        raise NotExpressible(name, [_problem(problem.pointer, problem.reason)]) from None
    except NotJson as problem:
        raise NotExpressible(name, [Mismatch((), str(problem))]) from None


def _convert(document: JsonValue, name: str) -> Converted:
    title = document.get("title") if isinstance(document, dict) else None
    conversion = _Conversion(document, type_name(str(title or name)))
    with refuses_large_types(name):
        found = conversion.convert(document, "#")
    empty = types_without_values(conversion.types)
    if empty and not conversion.problems:
        pointer = next(key for key, name in conversion.names.items() if name == empty[0])
        if has_no_finite_value(document):
            conversion.problems.append(_problem(pointer, "requires itself, so no value can end"))
        else:
            why = f"a value of `{pointer}` ends only without a key that has a `default`, which an object type writes"
            return _Conversion(document, conversion.root_name).as_one_hole(why)
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
                return self.opaque(schema, pointer, f"{pointer}/$ref")
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
        beyond = {*CHECKED, "format"} if schema.get("format") in CHECKED_FORMATS else {*CHECKED}
        if not constraints & beyond and not self.is_plain(schema, constraints):
            beyond = {"anyOf", "oneOf", "allOf"}
        if (reason := next((keyword for keyword in schema if keyword in beyond), None)) is not None:
            return self.opaque(schema, pointer, f"{pointer}/{reason}")
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
            return self.opaque(schema, pointer, f"{pointer}/{'enum' if 'enum' in schema else 'const'}")
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
            return self.opaque(schema, pointer, f"{pointer}/{keyword}")
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
            return self.opaque(schema, pointer, f"{pointer}/{word}")
        return t.Tuple(tuple(self.convert(part, f"{pointer}/{word}/{at}") for at, part in enumerate(prefix)))

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────

    def object(self, schema: Keywords, pointer: str) -> t.Type:
        if "properties" not in schema and "required" not in schema:
            return self.map(schema, pointer)
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise SchemaRefused("properties", "must be an object, and `required` a list")
        keys = dict.fromkeys([*properties, *map(str, required)])
        try:
            members = self.members(schema, [*keys], {*map(str, required)}, pointer)
        except _OneHole as whole:
            return self.opaque(schema, pointer, f"{pointer}/{whole.keyword}")
        if _may_have_others(schema):
            self.note(pointer, "the schema allows further keys; none are written or read")
        written = [member for member in members if self.keep_optional or member.is_required]
        found = [self.field(member, properties.get(member.key), pointer) for member in written]
        title, about = schema.get("title"), schema.get("description")
        return t.Object(
            tuple(field for field in found if field is not None),
            name=type_name(title) if isinstance(title, str) else definition_name(pointer),
            description=about if isinstance(about, str) else None,
        )

    def members(self, schema: Keywords, keys: list[str], required: set[str], pointer: str) -> list[_Member]:
        """The keys of an object, in order. Raises `_OneHole` with a keyword that no object type expresses."""
        _expect_one_reading(schema, keys)
        schemas = {key: _schemas_of(key, schema, pointer) for key in keys}
        _expect_own_parts(parts for parts in schemas.values() if len(parts) > 1)
        forbidden = dict.fromkeys(self.refused_names(schema, keys), "propertyNames")
        unnamed = {f"{pointer}/additionalProperties": False}
        for key in filter(required.__contains__, keys):
            if (by := "additionalProperties" if schemas[key] == unnamed else forbidden.get(key)) is not None:
                raise NoValue("required", f"requires {key!r}, which `{by}` forbids")
        optional = [key for key in keys if key not in required | {*forbidden} and False not in schemas[key].values()]
        if self.keep_optional:
            least, most = _counted(schema, len(required), len(optional))
            required |= {*optional} if least else set()
            forbidden |= dict.fromkeys([] if most else optional, "maxProperties")
        return [_Member(key, parts, key in required, forbidden.get(key)) for key, parts in schemas.items()]

    def refused_names(self, schema: Keywords, keys: list[str]) -> list[str]:
        """The keys that `propertyNames` does not accept."""
        if "propertyNames" not in schema:
            return []
        try:
            names = _opaque_document({"propertyNames": schema["propertyNames"]}, self.document, is_root=False)
        except SchemaRefused:
            raise _OneHole("propertyNames") from None
        return [key for key in keys if document_mismatches(names, {key: None})]

    def field(self, member: _Member, schema: JsonValue, pointer: str) -> t.Field | None:
        """The field of a key; None if the key is not written, because it may not be or has no value."""
        key, is_required, here = member.key, member.is_required, f"{pointer}/properties/{pointer_step(member.key)}"
        if member.forbidden_by is not None:
            self.note(here, f"`{member.forbidden_by}` forbids the key; it is never written")
            return None
        at = here if len(member.schemas) > 1 else next(iter(member.schemas))
        try:
            type = self.conjunction(member.schemas, here)
        except (SchemaRefused, RegexError) as problem:
            if isinstance(problem, NoValue) and not is_required:
                self.note(here, "no value is possible; the key is never written")
                return None
            type = self.refuse(problem, at)
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

    def conjunction(self, schemas: Mapping[str, JsonValue], here: str) -> t.Type:
        """The type of the values that fit all of the schemas, given by their pointers: one hole if they are several."""
        (first, schema), *others = schemas.items()
        if not others:
            return self.resolved(schema, first)
        parts = [*schemas.values()]
        if any(self.disjoint.are_disjoint(two) for two in combinations(parts, 2)):
            raise NoValue("", f"has no value that `{others[-1][0]}` accepts too")
        for at, part in schemas.items():
            if (refused := find_in_schemas(part, opaque_problem)) is not None:
                return self.refuse(SchemaRefused(refused[0].lstrip("/"), refused[1]), at)
        before = len(self.notes)
        found = self.once(None, lambda: self.opaque({"allOf": parts}, here, others[-1][0]))
        places = {f"{here}/allOf/{number}/": f"{at}/" for number, at in enumerate(schemas)}
        for number, note in enumerate(self.notes[before:], start=before):
            for written, place in places.items():
                self.notes[number] = replace(note, path=note.path.replace(written, place, 1))
        return found

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
            return self.opaque(schema, pointer, f"{pointer}/propertyNames")
        if named is None:
            return t.Map(self.convert(extra, f"{pointer}/additionalProperties"), pattern, minimum, maximum)
        if not isinstance(named, dict) or len(named) != 1 or extra is not False or "propertyNames" in schema:
            return self.opaque(schema, pointer, f"{pointer}/patternProperties")
        ((search, part),) = named.items()
        value = self.convert(part, f"{pointer}/patternProperties/{pointer_step(search)}")
        return t.Map(value, whole_pattern(search), minimum, maximum)

    # ── opaque parts ─────────────────────────────────────────────────────────────────

    def as_one_hole(self, why: str) -> Converted:
        assert isinstance(self.document, dict)
        try:
            found = self.opaque(self.document, "#")
        except SchemaRefused as refusal:
            raise NotExpressible(self.root_name, [_problem(f"#/{refusal.keyword}", refusal.reason)]) from None
        self.note("#", why)
        return Converted(found, MappingProxyType({}), tuple(self.notes))

    def opaque(self, schema: Keywords, pointer: str, because_of: str | None = None) -> t.Type:
        """The part as one hole, with the definitions it refers to. `because_of` is the pointer of what makes it one."""
        if not self.keep_optional:
            return t.Anything()
        document = _opaque_document(schema, self.document, is_root=pointer == "#")
        why = "" if because_of is None else f" because of `{because_of}`"
        self.note(pointer, f"is enforced as one hole{why}, so its parts are not decoded in parallel")
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


# ── keys of objects ────────────────────────────────────────────────────────────────────────────────────

_OF_SCALARS: Final = FAMILIES["string"] | FAMILIES["number"]
_MAX_CONJUNCTS: Final = 4  # of one key: each is compared with each
_IN_ANY_SCRIPT: Final = re.compile(r"\\[dDwW]")  # in a pattern in JSON


def _expect_one_reading(schema: Keywords, keys: list[str]) -> None:
    """Raises `_OneHole` if dialects of patterns differ in which keys match, or if that takes too much work to find."""
    named = schema.get("patternProperties")
    work = {
        "patternProperties": len(named) if isinstance(named, dict) else 0,
        "propertyNames": len(write_json(schema.get("propertyNames", {}))) // 10,
    }
    for keyword in ("patternProperties", "propertyNames"):
        is_of_scripts = _IN_ANY_SCRIPT.search(write_json(schema.get(keyword, {}))) is not None
        is_ambiguous = any(not key.isprintable() or (is_of_scripts and not key.isascii()) for key in keys)
        if keyword in schema and (is_ambiguous or len(keys) * work[keyword] > limits.MAX_SCHEMA_WORK):
            raise _OneHole(keyword)


def _expect_own_parts(together: Iterable[Mapping[str, JsonValue]]) -> None:
    """Raises `_OneHole` if schemas that hold together refer to what is no definition, or are too large to be copied."""
    size = 0
    for parts in together:
        text = write_json([*parts.values()])
        size += len(text)
        if _outside(text) or size > limits.MAX_SCHEMA_BYTES:
            raise _OneHole("patternProperties")


def _schemas_of(key: str, schema: Keywords, pointer: str) -> dict[str, JsonValue]:
    """The schemas that the value of a key has to fit, by their pointers, without those that follow from others.

    Raises `_OneHole` if they are many.
    """
    properties, named = schema.get("properties", {}), schema.get("patternProperties", {})
    assert isinstance(properties, dict) and isinstance(named, dict)
    found = {f"{pointer}/properties/{pointer_step(key)}": properties[key]} if key in properties else {}
    for search, part in named.items():
        if patterns.matches(whole_pattern(search), key):
            found[f"{pointer}/patternProperties/{pointer_step(search)}"] = part
    if not found:
        return {f"{pointer}/additionalProperties": schema.get("additionalProperties", True)}
    for at, part in found.items():
        if part is False:
            return {at: part}
    if len(found) > _MAX_CONJUNCTS:
        raise _OneHole("patternProperties")
    kept = dict(found)
    for at in reversed(found):
        if any(_implies(other, found[at]) for place, other in kept.items() if place != at):
            del kept[at]
    return kept


def _implies(schema: JsonValue, other: JsonValue) -> bool:
    """Returns True if certainly every value of the schema is one of the other: it says all that the other says."""
    if not isinstance(other, dict) or same_json(schema, other):
        return other is True or same_json(schema, other)
    said = schema if isinstance(schema, dict) else {}
    wanted = {keyword: part for keyword, part in other.items() if is_constraint(keyword) or is_refused(keyword)}
    return wanted.keys() <= _OF_SCALARS | {"type"} and all(
        keyword in said and (_within(said[keyword], part) if keyword == "type" else same_json(said[keyword], part))
        for keyword, part in wanted.items()
    )


def _within(kinds: JsonValue, others: JsonValue) -> bool:
    few, many = ({*map(str, given if isinstance(given, list) else [given])} for given in (kinds, others))
    return few <= many | ({"integer"} if "number" in many else set())


def _counted(schema: Keywords, required: int, optional: int) -> tuple[int, int]:
    """How many of the optional keys have to be written, and how many may be: none or all, or it raises `_OneHole`."""
    minimum, maximum = _lengths(schema, "minProperties", "maxProperties")
    least, most = max(minimum - required, 0), optional if maximum is None else min(maximum - required, optional)
    if most < 0:
        raise NoValue("maxProperties", f"{maximum} is less than the number of required keys, {required}")
    if least > optional and not _may_have_others(schema):
        raise NoValue("minProperties", f"{minimum} is more than the number of possible keys, {required + optional}")
    for keyword, count in (("minProperties", least), ("maxProperties", most)):
        if count not in (0, optional):
            raise _OneHole(keyword)
    return least, most


def _may_have_others(schema: Keywords) -> bool:
    """Whether an object may have keys that the schema does not name."""
    named = schema.get("patternProperties", {})
    assert isinstance(named, dict)
    return any(part is not False for part in (schema.get("additionalProperties", True), *named.values()))


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
    outside = _outside(text)
    if outside and not is_root:
        raise SchemaRefused("$ref", f"`{outside[0]}` points outside a part that is enforced as one hole; use `$defs`")
    whole = dict(schema)
    if '"$ref"' in text and isinstance(document, dict):
        whole |= _definitions(text, document)
    refused = find_in_schemas(whole, opaque_problem)
    if refused is not None:
        raise SchemaRefused(refused[0].lstrip("/"), refused[1])
    return write_json(modern(whole))


def _outside(text: str) -> list[str]:
    """The references in a text to what is no definition."""
    return [found for found in re.findall(r'"\$ref":"([^"]*)"', text) if not _is_definition(found)]


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
