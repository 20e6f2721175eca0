"""JSON values as Pydantic has to be given them.

Pydantic reads a JSON number as a float. A number of more digits is given as a text where the model has a `Decimal` or
an `int`, which Pydantic reads from texts. Anywhere else a text is another value than a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from pastalang.values.json import JsonValue, write_json
from pastalang.values.pydantic.scalars import CoreSchema

_TAKES_TEXT: Final = frozenset({"str", "any"})


def as_given_to(schema: CoreSchema, value: JsonValue) -> Any:
    """The value with a float or a text for each decimal. `schema` is the core schema that validates it."""
    return _Spelling().given(value, [schema])


def places_of(schema: CoreSchema) -> Sequence[CoreSchema] | None:
    """The places of a named tuple, which before Pydantic 2.14 is a call of its class."""
    if schema["type"] == "named-tuple":
        return schema["fields"]  # type: ignore[no-any-return]
    made = schema["function"]
    is_tuple = isinstance(made, type) and issubclass(made, tuple)
    return schema["arguments_schema"]["arguments_schema"] if is_tuple else None


@dataclass(slots=True)
class _Spelling:
    definitions: dict[str, CoreSchema] = field(default_factory=dict)

    def given(self, value: JsonValue, schemas: Iterable[CoreSchema]) -> Any:
        """The part that is validated by one of the schemas."""
        shapes = list(self.shapes(schemas, value))
        match value:
            case dict():
                return {key: self.given(part, _of_key(shapes, key)) for key, part in value.items()}
            case list():
                return [self.given(part, _of_item(shapes, index)) for index, part in enumerate(value)]
            case Decimal():
                near = float(value)
                is_exact = Decimal(repr(near)) == value
                return near if is_exact or not _read_from_text([one["type"] for one in shapes]) else write_json(value)
            case _:
                return value

    def shapes(self, schemas: Iterable[CoreSchema], value: JsonValue) -> Iterator[CoreSchema]:
        """The schemas that say what the value is, in order, without those that only stand around others."""
        waiting, met = list(schemas), set[int]()
        while waiting:
            schema = waiting.pop(0)
            if id(schema) not in met:
                met.add(id(schema))
                inner = self.inner(schema, value)
                yield from () if inner else (schema,)
                waiting[:0] = inner

    def inner(self, schema: CoreSchema, value: JsonValue) -> list[CoreSchema]:
        """The schemas of the same value inside a schema."""
        match schema["type"]:
            case "definitions":
                self.definitions |= {one["ref"]: one for one in schema["definitions"]}
                return [schema["schema"]]
            case "definition-ref":
                return [self.definitions[schema["schema_ref"]]]
            case "union":
                return [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
            case "tagged-union":
                return _tagged(schema["choices"], schema["discriminator"], value)
            case "json-or-python":
                return [schema["json_schema"]]
            case "lax-or-strict":
                return [schema["strict_schema"]]
            case "chain":
                return [schema["steps"][0]]
            case _:
                return [schema["schema"]] if "schema" in schema else []


def _tagged(choices: Mapping[Any, Any], key: Any, value: JsonValue) -> list[CoreSchema]:
    """The member that the value says it is; all of them if no key says it."""
    tag = value.get(key) if isinstance(value, dict) and isinstance(key, str) else None
    found = [choice for name, choice in choices.items() if name == tag] or list(choices.values())
    return [choice if isinstance(choice, Mapping) else choices[choice] for choice in found]


def _of_key(shapes: Iterable[CoreSchema], key: str) -> Iterator[CoreSchema]:
    for shape in shapes:
        found = [place["schema"] for name, place in _named(shape) if key in (name, *_aliases(place))]
        yield from found or [shape[rest] for rest in ("values_schema", "extras_schema") if rest in shape]


def _named(shape: CoreSchema) -> Iterable[tuple[str, CoreSchema]]:
    """The fields of a class, each with its name in Python."""
    fields = shape.get("fields", {})
    return fields.items() if isinstance(fields, Mapping) else [(place["name"], place) for place in fields]


_VALUES: Final = frozenset({"default", "expected", "metadata", "members"})  # what a core schema holds of its user's
_CLASSES: Final = ("model-fields", "dataclass-args", "typed-dict")


def keys_by_name(schema: CoreSchema) -> tuple[dict[str, tuple[str, ...]], bool]:
    """By the names in Python, the keys of all fields in a core schema, and whether its errors are at the names."""
    keys: dict[str, tuple[str, ...]] = {}
    at_names = False
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            at_names |= part.get("loc_by_alias") is False
            fields = _named(part) if part.get("type") in _CLASSES else ()
            for name, place in fields:
                keys[name] = (*keys.get(name, ()), *_aliases(place))
                waiting.append(place)
            known = {*_VALUES, "fields"} if fields else _VALUES
            waiting += [inner for name, inner in part.items() if name not in known]
    return keys, at_names


def _aliases(place: CoreSchema) -> Iterator[str]:
    alias = place.get("validation_alias", [])
    if isinstance(alias, str):
        yield alias
    elif alias:
        yield from (path[0] for path in (alias if isinstance(alias[0], list) else [alias]) if len(path) == 1)


def _of_item(shapes: Iterable[CoreSchema], index: int) -> Iterator[CoreSchema]:
    for shape in shapes:
        items = shape.get("items_schema")
        if shape["type"] in ("named-tuple", "call"):
            items = [place["schema"] for place in places_of(shape) or ()]
        if isinstance(items, Mapping):
            yield items
        elif items:
            place = min(index, shape.get("variadic_item_index", index))
            yield from items[place : place + 1]


def _read_from_text(kinds: list[str]) -> bool:
    """Whether a value of one of these kinds is read from a text as from the same number. Of several kinds that take a
    text as it is, Pydantic prefers the first."""
    if "decimal" in kinds:
        return _TAKES_TEXT.isdisjoint(kinds[: kinds.index("decimal")])
    return "int" in kinds and _TAKES_TEXT.isdisjoint(kinds) and "float" not in kinds
