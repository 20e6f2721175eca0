"""Converts a Pydantic model, or any type that Pydantic knows, to a hole type.

The conversion reads Pydantic's core schema, which validates values, and not its JSON Schema, which loses decimals,
aliases and strictness. Every constraint becomes part of a type that is enforced token by token, or a *note*: the
model itself checks it when the value is finished. Anything else is refused with its path.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import json
import re
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import Annotated, Any, Final, NewType, TypeAlias, get_origin

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    AnyUrl,
    BaseModel,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    RootModel,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError, Url
from typing_extensions import TypeAliasType

from pastalang.limits import MAX_TYPE_DEPTH
from pastalang.program import types as t
from pastalang.values.conversion import Conversion, Converted, Note, NotExpressible, TooLarge, refuses_large_types
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.outlines_types import from_expression, from_outlines, is_term
from pastalang.values.paths import Mismatch, path_text
from pastalang.values.pydantic.annotations import field_marks, in_order, layers_of, with_marks
from pastalang.values.pydantic.exact import as_given_to, places_of
from pastalang.values.pydantic.scalars import (
    SCALARS,
    CoreSchema,
    Refused,
    Site,
    expect_keys,
    key_pattern,
    outlines_field,
    shown,
    validator_name,
)

Path: TypeAlias = tuple[str | int, ...]


def type_of_model(model: Any) -> Converted:
    """The hole type of a model class or of any other type that `is_type` accepts. Raises `NotExpressible`."""
    if is_term(model):
        return from_outlines(model, name="answer")
    if isinstance(model, re.Pattern):
        return from_expression(model, name="answer")
    if isinstance(model, type) and "__pasta_type__" in vars(model):  # made by `model_of`
        origin, types = vars(model)["__pasta_type__"]
        return Converted(origin, MappingProxyType(types))
    name, conversion = name_of_type(model), _Conversion()
    with refuses_large_types(name):
        found = conversion.convert(_core_schema(model), Site(), ())
    if conversion.problems:
        raise NotExpressible(name, conversion.problems)
    return Converted(found, MappingProxyType(conversion.types), tuple(dict.fromkeys(conversion.notes)))


def adapter_of(model: Any) -> TypeAdapter[Any]:
    """Pydantic's validator of a type. A compiled regular expression stands for the texts that match it."""
    if isinstance(model, re.Pattern):
        return TypeAdapter(Annotated[str, AfterValidator(partial(_matching, model))])
    return TypeAdapter(model)


def _matching(expression: re.Pattern[str], text: str) -> str:
    if expression.fullmatch(text) is None:
        raise ValueError(f"the text does not match /{expression.pattern}/")
    return text


def validate_value(adapter: TypeAdapter[Any], value: JsonValue) -> Any:
    """An exact value as the adapter's type. A decimal stays one, so 25.0 is no integer for a strict model."""
    return adapter.validate_json(json.dumps(as_given_to(adapter.core_schema, value), ensure_ascii=False))


def in_one_line(problem: Exception) -> str:
    """What an exception says, and of one by Pydantic, each place with what is wrong there."""
    if not isinstance(problem, ValidationError):
        return str(problem)
    errors = problem.errors(include_url=False)
    found = ((path_text(one["loc"]), one["msg"]) for one in errors[:_SHOWN])
    said = "; ".join(f"{where}: {reason[:1].lower()}{reason[1:]}" if where else reason for where, reason in found)
    return said + (f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else "")


def name_of_type(model: Any) -> str:
    """How a type is named in messages: `Invoice`, `list[Invoice]`, and `schema` for a JSON Schema as a dict."""
    if isinstance(model, Mapping):
        return "schema"
    return model.__name__ if isinstance(model, type) and get_origin(model) is None else str(model)


def is_type(found: object) -> bool:
    """Returns True for a class, and for forms such as `list[int]`, `A | B`, `Literal[...]` and type aliases.

    A term of outlines and a compiled regular expression are types, too.
    """
    is_form = found is Any or get_origin(found) is not None
    return is_form or isinstance(found, type | NewType | TypeAliasType | re.Pattern) or is_term(found)


def _core_schema(model: Any) -> CoreSchema:
    name = name_of_type(model)
    if model is BaseModel:
        raise NotExpressible(name, [Mismatch((), "it is the base class of models; pass a model of your own")])
    try:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model.model_rebuild()
            return model.__pydantic_core_schema__
        adapter = TypeAdapter(model)
        adapter.rebuild()  # raises what names the annotation that is not defined
        return adapter.core_schema
    except SchemaError as problem:
        reason = str(problem).splitlines()[-1].removeprefix("error: ")
        raise NotExpressible(name, [Mismatch((), f"Pydantic cannot validate it: {reason}")]) from problem
    except PydanticUndefinedAnnotation as problem:
        reason = f"the name {problem.name!r} in an annotation is not defined where the model is"
        raise NotExpressible(name, [Mismatch((), reason)]) from problem
    except PydanticUserError as problem:
        raise NotExpressible(name, [Mismatch((), problem.message.splitlines()[0])]) from problem


_SHOWN: Final = 5  # errors of Pydantic in a line
_CLOSED: Final = ("model", "dataclass", "typed-dict", "named-tuple")
_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bytes": "bytes have no single spelling in JSON; use a string",
        "callable": "a callable cannot be written by a model",
        "is-instance": "an instance of a class cannot be read from JSON",
        "is-subclass": "a class cannot be written by a model",
        "complex": "a complex number has no spelling in JSON",
        "json": "JSON inside a string is not supported; use the type itself",
        "generator": "an iterable of no known length is not supported; use a list",
        "multi-host-url": "an address of several hosts is not supported; use a string with a pattern",
        "function-plain": "a plain validator does not say what it accepts; annotate the type that it reads",
    }
)


@dataclass
class _Conversion(Conversion):
    """One walk over a core schema. The key of a part is its reference."""

    definitions: dict[str, CoreSchema] = field(default_factory=dict)
    of_fields: set[int] = field(default_factory=set)  # the core schemas that are all of a field's type

    def convert(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        """The type at `path`. Keeps a refusal and goes on, so that all are reported at once."""
        if len(path) > MAX_TYPE_DEPTH:
            raise TooLarge(f"its types are nested more than {MAX_TYPE_DEPTH} levels deep")
        here = Site(site.config)
        try:
            return self.referred(schema, here, path)
        except Refused as refusal:
            self.problems.append(Mismatch(path, str(refusal)))
            return t.Null()
        finally:
            where = Mismatch(path, "").where
            self.notes.extend(Note(where, text) for text in here.notes)

    def referred(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        if schema["type"] == "definitions":
            self.definitions |= {definition["ref"]: definition for definition in schema["definitions"]}
            return self.referred(schema["schema"], site, path)
        ref = schema["schema_ref"] if schema["type"] == "definition-ref" else schema.get("ref")
        return self.once(ref, lambda: self.structure(self.definitions.get(ref or "", schema), site, path))

    def bare_name(self, key: str) -> str:
        """`Model` for `module.Model:1234`."""
        return re.sub(r"\W+", "_", key.rpartition(":")[0].rpartition(".")[2]).strip("_") or "Type"

    def structure(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        found = self.unmarked(schema, site, path)
        return with_marks(found, schema, is_field=id(schema) in self.of_fields)

    def unmarked(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        kind = schema["type"]
        if kind in SCALARS:
            return SCALARS[kind](schema, site)
        match kind:
            case "nullable":
                return union([self.referred(schema["schema"], site, path), t.Null()])
            case "default":
                return self.referred(schema["schema"], site, path)
            case "list" | "set" | "frozenset" | "deque":
                return self.array(schema, site, path)
            case "tuple":
                return self.places(schema, site, path)
            case "named-tuple" | "call" if (places := places_of(schema)) is not None:
                items = [self.convert(place["schema"], site, (*path, index)) for index, place in enumerate(places)]
                return t.Tuple(tuple(items))
            case "dict":
                return self.mapping(schema, site, path)
            case "model":
                return self.model(schema, site, path)
            case "dataclass" | "typed-dict":
                return self.record(schema, site, path)
            case "union":
                choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
                return union([self.referred(choice, site, path) for choice in choices])
            case "tagged-union":
                return self.tagged_union(schema, site, path)
            case "function-after" | "function-before" | "function-wrap":
                return self.validated(schema, site, path)
            case "json-or-python":
                return self.referred(schema["json_schema"], site, path)
            case "lax-or-strict":
                return self.referred(schema["strict_schema"], site, path)
            case "custom-error":
                return self.referred(schema["schema"], site, path)
            case "chain":
                if len(schema["steps"]) > 1:
                    site.note("the steps of a chain after the first")
                return self.referred(schema["steps"][0], site, path)
            case "function-plain" if (pattern := outlines_field(schema)) is not None:
                return pattern
            case _:
                raise Refused(_REASONS.get(kind, f"the type {kind} is not supported"))

    # ── containers ───────────────────────────────────────────────────────────────────────────────────────

    def array(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        expect_keys(schema, {"items_schema", "min_length", "max_length", "fail_fast"})
        item = self.convert(schema.get("items_schema") or {"type": "any"}, site, (*path, "[]"))
        unique = schema["type"] in ("set", "frozenset")
        if unique and (why := why_unhashable(schema.get("items_schema"), self.definitions)) is not None:
            raise Refused(f"{why} cannot be in a set; use a list")
        return t.Array(item, schema.get("min_length") or 0, schema.get("max_length"), unique=unique)

    def places(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        expect_keys(schema, {"items_schema", "variadic_item_index", "min_length", "max_length", "fail_fast"})
        places, variadic = schema["items_schema"], schema.get("variadic_item_index")
        if variadic is not None and len(places) > 1:
            raise Refused("a tuple with fixed and repeated items is not supported")
        if variadic is not None:
            item = self.convert(places[0], site, (*path, "[]"))
            return t.Array(item, schema.get("min_length") or 0, schema.get("max_length"))
        items = tuple(self.convert(place, site, (*path, index)) for index, place in enumerate(places))
        return t.Tuple(items)

    def mapping(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        expect_keys(schema, {"keys_schema", "values_schema", "min_length", "max_length", "fail_fast"})
        pattern = key_pattern(schema.get("keys_schema") or {"type": "any"}, site)
        value = self.convert(schema.get("values_schema") or {"type": "any"}, site, (*path, "{}"))
        return t.Map(value, pattern, schema.get("min_length") or 0, schema.get("max_length"))

    def validated(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        """A validator runs on the finished value, so it becomes a note. A few of Pydantic's own have a hole type."""
        function = schema["function"]["function"]
        inner = self.referred(schema["schema"], site, path)
        known = _STRING_FORMATS.get(f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}")
        if known is not None and isinstance(inner, t.String):
            return replace(inner, format=known)
        if (limited := with_length(inner, function)) is not None:
            return limited
        if schema["schema"]["type"] != "url":
            site.note(f"the validator `{validator_name(function)}`")
        return inner

    def tagged_union(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        key = schema["discriminator"]
        choices: dict[int, CoreSchema] = {}
        for choice in schema["choices"].values():
            target = choice if isinstance(choice, Mapping) else schema["choices"][choice]
            choices.setdefault(id(target), target)
        arms = [self.referred(choice, site, path) for choice in choices.values()]
        if isinstance(key, str):
            return t.Union(tuple(arms), discriminator=key)
        site.note("which member of the union a value is meant to be")
        return union(arms)

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────

    def model(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        inner = _closed_site(schema, site, {**site.config, **schema["config"]} if "config" in schema else {})
        if schema.get("custom_init"):
            site.note(f"`{schema['cls'].__name__}.__init__`")
        body = _checked_fields(schema["schema"], site)
        if schema.get("root_model"):
            return self.convert(body["fields"]["root"]["schema"] if "fields" in body else body, inner, path)
        return self.object(schema["cls"], body["fields"], inner, path)

    def record(self, schema: CoreSchema, site: Site, path: Path) -> t.Type:
        inner = _closed_site(schema, site, {**site.config, **schema.get("config", {})})
        if schema["type"] == "typed-dict":
            return self.object(schema["cls"], schema["fields"], inner, path)
        body = _checked_fields(schema["schema"], site)
        fields = {place["name"]: place for place in body["fields"] if place.get("init", True)}
        return self.object(schema["cls"], fields, inner, path)

    def object(self, cls: Any, places: Mapping[str, Any], site: Site, path: Path) -> t.Type:
        fields = [self.field(cls, name, place, site, path) for name, place in places.items()]
        keys = [found.key for found in fields]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise Refused(f"two fields share the key {twice!r}")
        marks = [field_marks(place["schema"]) for place in places.values()]
        fields = in_order(dict(zip(places, fields, strict=True)), marks)
        return t.Object(tuple(fields), name=class_name(cls), description=documentation(cls))

    def field(self, cls: Any, name: str, place: CoreSchema, site: Site, path: Path) -> t.Field:
        key = self.key(name, place, site, (*path, name))
        here = (*path, key)
        self.of_fields |= set(map(id, layers_of(place["schema"])))
        type = self.convert(place["schema"], site, here)
        default = self.default(place["schema"], type, here)
        if default is None and place["type"] == "typed-dict-field" and place.get("required") is False:
            if not isinstance(type, t.Literal) and not self.fits(type, None):
                type, default = union([type, t.Null()]), t.ABSENT
            else:
                self.notes.append(Note(Mismatch(here, "").where, "the key may be left out, but is always written"))
        return t.Field(
            key=key, type=type, name=name if name != key else None,
            description=field_description(cls, name, place), default=default,
        )  # fmt: skip

    def key(self, name: str, place: CoreSchema, site: Site, path: Path) -> str:
        alias = place.get("validation_alias")
        if alias is None or site.config.get("validate_by_alias") is False:
            return name
        if isinstance(alias, str):
            return alias
        paths = alias if isinstance(alias[0], list) else [alias]
        simple = [steps[0] for steps in paths if len(steps) == 1]
        if not simple:
            self.problems.append(Mismatch(path, "an alias that reaches into other keys is not supported"))
            return name
        self.notes.append(Note(Mismatch(path, "").where, f"of its aliases only {simple[0]!r} is written and read"))
        return str(simple[0])

    def default(self, schema: CoreSchema, type: t.Type, path: Path) -> t.Default | None:
        while schema["type"].startswith("function-") and "schema" in schema:
            schema = schema["schema"]
        if schema["type"] != "default":
            return None
        where = Mismatch(path, "").where
        try:
            text = default_json(schema)
        except Undefined as problem:
            self.notes.append(Note(where, f"{problem}; the key is always written and read"))
            return None
        if not self.fits(type, parse_json(text)):
            self.notes.append(
                Note(where, f"its default {text} does not fit its type; the key is always written and read")
            )
            return None
        return t.Default(text)


def union(arms: Iterable[t.Type]) -> t.Type:
    """A union without unions directly inside it, and without repeated arms."""
    flat: list[t.Type] = []
    for arm in arms:
        flat.extend(arm.arms if isinstance(arm, t.Union) and arm.discriminator is None else [arm])
    different = list(dict.fromkeys(flat))
    if t.Anything() in different:
        return t.Anything()
    if len(different) == 1:
        return different[0]
    tagged = [arm for arm in different if isinstance(arm, t.Union)]
    if len(tagged) == 1 and all(isinstance(arm, t.Union | t.Null) for arm in different):
        return t.Union((*tagged[0].arms, t.Null()), discriminator=tagged[0].discriminator)
    return t.Union(tuple(different))


# Types of Pydantic and Python that are a string with a validator, with the format that it checks.
_STRING_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ipaddress.IPv4Address": "ipv4",
        "ipaddress.IPv6Address": "ipv6",
        "pydantic.networks.EmailStr._validate": "email",
    }
)


# ── classes ────────────────────────────────────────────────────────────────────────────────────────────


def _closed_site(schema: CoreSchema, site: Site, config: Mapping[str, Any]) -> Site:
    """The context of the fields of a class. Raises `Refused` if the class takes other keys."""
    if config.get("extra_fields_behavior") == "allow" or schema.get("extra_behavior") == "allow":
        raise Refused(f'`extra="allow"`: the keys of {schema["cls"].__name__} are not known')
    return Site(config, site.notes)


def _checked_fields(schema: CoreSchema, site: Site) -> CoreSchema:
    """The schema of the fields of a class, with a note for each validator around it."""
    while schema["type"].startswith("function-") and "schema" in schema:
        site.note(f"the validator `{validator_name(schema['function']['function'])}`")
        schema = schema["schema"]
    return schema


def class_name(cls: Any) -> str:
    return re.sub(r"\W+", "_", cls.__name__).strip("_")


def documentation(cls: Any) -> str | None:
    """The first paragraph of the docstring, unless a dataclass has generated it."""
    text = cls.__doc__ if isinstance(cls.__doc__, str) else None
    if not text or text.startswith(f"{cls.__name__}("):
        return None
    return " ".join(text.strip().split("\n\n")[0].split()) or None


def field_description(cls: Any, name: str, place: Mapping[str, Any]) -> str | None:
    info = getattr(cls, "model_fields", {}).get(name)
    if info is not None:
        return info.description or None
    updates = place.get("metadata", {}).get("pydantic_js_updates", {})
    return updates.get("description") or None


def with_length(type: t.Type, function: Any) -> t.Type | None:
    """The type within a limit of length that Pydantic checks with a function of its own; None for other functions."""
    if not isinstance(function, partial) or not str(function.func.__module__).startswith("pydantic."):
        return None
    name, given = function.func.__name__, function.keywords
    minimum = given.get("min_length") if name == "min_length_validator" else None
    maximum = given.get("max_length") if name == "max_length_validator" else None
    if (minimum is None and maximum is None) or not isinstance(type, t.Array | t.Map):
        return None
    if minimum is not None:
        return replace(type, min_items=max(minimum, type.min_items))
    return replace(
        type, max_items=maximum if type.max_items is None or maximum is None else min(maximum, type.max_items)
    )


def why_unhashable(schema: Mapping[str, Any] | None, definitions: Mapping[str, Mapping[str, Any]]) -> str | None:
    """What in the items of a set has no hash in Python, so that no value of the set can be made; None if all has."""
    if schema is None or schema["type"] == "any":
        return "any value, which may be a list or an object,"
    match schema["type"]:
        case "definition-ref":
            found = definitions.get(schema["schema_ref"])
            return None if found is None else why_unhashable(found, definitions)
        case "list" | "dict" | "set" | "deque":
            return f"a {schema['type']}"
        case "typed-dict":
            return "a dict"
        case "model" | "dataclass":
            cls = schema["cls"]
            return None if cls.__hash__ is not None else f"`{cls.__name__}`, which has no hash,"
        case "tuple":
            parts = schema["items_schema"]
        case "union":
            parts = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        case "tagged-union":
            parts = [choice for choice in schema["choices"].values() if isinstance(choice, Mapping)]
        case _:
            parts = [schema["schema"]] if isinstance(schema.get("schema"), Mapping) else []
    return next((why for part in parts if (why := why_unhashable(part, definitions)) is not None), None)


# ── defaults and examples as JSON ──────────────────────────────────────────────────────────────────────

# Factories that always make the same value, so that the default is a constant.
_CONSTANT_FACTORIES: Final = (list, dict, set, frozenset, tuple, str, int, float, bool)
_ADDRESSES: Final = (
    ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface,
    ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface,
)  # fmt: skip


class Undefined(ValueError):
    """Why a value has no JSON spelling that stands for it."""


def default_json(schema: Mapping[str, Any]) -> str:
    """The text of a `default` core schema."""
    if "default" in schema:
        return write_json(_default(schema["default"]))
    factory = schema["default_factory"]
    if factory in _CONSTANT_FACTORIES or (isinstance(factory, type) and issubclass(factory, BaseModel)):
        return write_json(_default(factory()))
    raise Undefined(f"its default is made by `{validator_name(factory)}`")


def _default(value: Any) -> JsonValue:
    try:
        return json_of(value)
    except Undefined as problem:
        raise Undefined(f"its default {problem}") from problem


def json_of(value: Any) -> JsonValue:
    """The value as JSON, with the keys that its model is read by. Raises `Undefined`."""
    match value:
        case Enum():
            return json_of(value.value)
        case Decimal() if not value.is_finite():
            return _refuse(value)
        case None | bool() | int() | str() | Decimal():
            return value
        case float():
            return Decimal(repr(value)) if value == value and abs(value) != float("inf") else _refuse(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return _duration(value)
        case uuid.UUID() | PurePath() | AnyUrl() | Url():
            return str(value)
        case _ if isinstance(value, _ADDRESSES):
            return str(value)
        case RootModel():
            return json_of(value.root)
        case BaseModel():
            return {key: json_of(getattr(value, name)) for name, key in keys_of(type(value)).items()}
        case Mapping():
            return {str(json_of(key)): json_of(item) for key, item in value.items()}
        case list() | tuple() | deque():
            return [json_of(item) for item in value]
        case set() | frozenset():  # which have another order in each process
            return sorted(map(json_of, value), key=write_json)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            known = getattr(value, "__pydantic_fields__", {})
            names = [place.name for place in dataclasses.fields(value) if place.init]
            return {_key(name, known.get(name)): json_of(getattr(value, name)) for name in names}
        case _:
            return _refuse(value)


def _duration(value: datetime.timedelta) -> str:
    """In days and seconds: years and months, which Pydantic writes, have no one length."""
    size = abs(value)
    seconds = f"{size.seconds}.{size.microseconds:06}".rstrip("0").rstrip(".")
    return f"{'-' if value != size else ''}P{size.days}DT{seconds}S"


def keys_of(model: type[BaseModel]) -> dict[str, str]:
    """The keys that a model is read by, by the names of its fields."""
    by_alias = model.model_config.get("validate_by_alias") is not False
    return {name: _key(name, place if by_alias else None) for name, place in model.model_fields.items()}


def _key(name: str, place: FieldInfo | None) -> str:
    """The key that the field is read by: the first of its aliases that names one."""
    alias = None if place is None else place.validation_alias
    for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
        steps = choice.path if isinstance(choice, AliasPath) else [choice]
        if len(steps) == 1 and isinstance(steps[0], str):
            return steps[0]
    return name


def _refuse(value: Any) -> JsonValue:
    raise Undefined(f"{shown(value)} has no JSON spelling")
