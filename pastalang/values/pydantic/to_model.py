"""Converts a hole type to a Pydantic model that accepts the same JSON values.

Constraints that Pydantic has are passed to `Field`, so that the model's own JSON Schema includes them. The others
(steps of decimals, exact literals, unique items, the single spelling of a date) are validators defined here.
"""

from __future__ import annotations

import datetime
import keyword
import re
import typing
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import GenericAlias
from typing import Annotated, Any, Final, ForwardRef, assert_never

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    StrictBool,
    StrictInt,
    StrictStr,
    create_model,
)

from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES, named_types
from pastalang.values.fit import find_mismatches, to_plain
from pastalang.values.json import parse_json, with_scalars
from pastalang.values.patterns import FORMATS, engine_pattern

CONFIG: Final = ConfigDict(extra="forbid", populate_by_name=True, protected_namespaces=(), allow_inf_nan=False)


def model_of(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES, *, name: str = "Answer") -> type[BaseModel]:
    """A model class of this type; a `RootModel` if the type is not an object."""
    types = named_types(type, types)
    building = _Building(types)
    root = type
    while isinstance(root, t.Named):
        name, root = root.name, types[root.name]
    model = building.named(name) if types.get(name) == root else building.model(name, root)
    for made in building.made.values():
        made.model_rebuild(_types_namespace={**building.made, **vars(typing)}, force=True)
    model.model_rebuild(_types_namespace={**building.made, **vars(typing)}, force=True)
    model.__pasta_type__ = (type, types)  # type: ignore[attr-defined]
    return model


@dataclass(frozen=True, slots=True)
class _Building:
    types: Mapping[str, t.Type]
    made: dict[str, type[BaseModel]] = field(default_factory=dict)  # by the names that forward references use
    taken: set[str] = field(default_factory=set)
    nested: dict[t.Object, type[BaseModel]] = field(default_factory=dict)

    def named(self, name: str) -> type[BaseModel]:
        if name not in self.made:
            self.taken.add(name)
            self.made[name] = RootModel  # a recursive type refers to itself by a forward reference
            self.made[name] = self.model(name, self.types[name])
        return self.made[name]

    def model(self, name: str, type: t.Type) -> type[BaseModel]:
        if not isinstance(type, t.Object):
            return create_model(name, __base__=RootModel, root=(self.annotation(type, name), ...))
        fields = dict(self.model_field(field, names, name) for field, names in _python_names(type))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # `_python_names` avoids names that would shadow Pydantic's own
            return create_model(name, __config__=CONFIG, __doc__=type.description, **fields)  # type: ignore[call-overload,no-any-return]

    def model_field(self, field: t.Field, python_name: str, owner: str) -> tuple[str, tuple[Any, Any]]:
        about: dict[str, Any] = {"description": field.description}
        if python_name != field.key:
            about["alias"] = field.key
        if field.default is not None:
            about |= {"default": to_plain(parse_json(field.default.json)), "validate_default": True}
        return python_name, (self.annotation(field.type, f"{owner}_{python_name}"), Field(**about))

    def annotation(self, type: t.Type, name: str) -> Any:
        """The Python annotation for `type`. Objects inside it are named after `name`."""
        match type:
            case t.Object():
                if type.name is None:
                    return self.model(self.free_name(_class_name(name)), type)
                if type not in self.nested:
                    self.nested[type] = self.model(self.free_name(type.name), type)
                return self.nested[type]
            case t.Named(name=target):
                self.named(target)
                return ForwardRef(target)
            case t.Array(item=item):
                many = _annotated(
                    GenericAlias(list, (self.annotation(item, name),)), _lengths(type.min_items, type.max_items)
                )
                return _checked(many, t.Array(t.Anything(), unique=True)) if type.unique else many
            case t.Tuple(items=items):
                places = tuple(self.annotation(item, f"{name}_{at}") for at, item in enumerate(items))
                return GenericAlias(tuple, places)
            case t.Map(value=value):
                key = StrictStr if type.key_pattern is None else _matching(type.key_pattern)
                mapping = GenericAlias(dict, (key, self.annotation(value, name)))
                return _annotated(mapping, _lengths(type.min_items, type.max_items))
            case t.Union():
                return self.union(type, name)
            case _:
                return _scalar(type)

    def union(self, type: t.Union, name: str) -> Any:
        """The annotation of a union. `Optional` wraps the other arms, because Pydantic chooses only among those."""
        texts, others = _split_texts(type.arms)
        members = [typing.Literal[texts]] if texts else []
        members += [self.annotation(arm, f"{name}_{at}") for at, arm in enumerate(others) if arm != t.Null()]
        joined: Any = typing.Union[tuple(members)] if members else None  # noqa: UP007
        if typing.get_origin(joined) is typing.Union:
            tagged = type.discriminator is not None and self.is_tagged(type)
            how = Field(discriminator=type.discriminator) if tagged else Field(union_mode="left_to_right")
            joined = _annotated(joined, how)
        return typing.Optional[joined] if t.Null() in others else joined  # noqa: UP045

    def is_tagged(self, union: t.Union) -> bool:
        """Returns True if Pydantic takes it as a tagged union: objects only, each with a string tag by its own name."""
        arms = [arm for arm in union.arms if arm != t.Null()]
        shapes = [self.types[arm.name] if isinstance(arm, t.Named) else arm for arm in arms]
        tags = [
            (field, name)
            for shape in shapes
            if isinstance(shape, t.Object)
            for field, name in _python_names(shape)
            if field.key == union.discriminator
        ]
        return len(tags) == len(shapes) and all(
            name == field.key and isinstance(field.type, t.Literal) and isinstance(field.type.value, str)
            for field, name in tags
        )

    def free_name(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.taken or name in self.types:
            name, number = f"{wanted}{number}", number + 1
        self.taken.add(name)
        return name


# ── scalars ──────────────────────────────────────────────────────────────────────────────────────────────


def _scalar(type: t.Type) -> Any:
    match type:
        case t.String():
            return _string(type)
        case t.Regex(pattern=pattern):
            return _matching(pattern)
        case t.Integer():
            return Annotated[StrictInt, BeforeValidator(_whole), _bounds(type, int)]
        case t.Number():
            number = Annotated[float, Field(strict=True, allow_inf_nan=False), _bounds(type, float)]
            return number if type.multiple_of is None else _checked(number, t.Number(multiple_of=type.multiple_of))
        case t.Boolean():
            return StrictBool
        case t.Null():
            return None
        case t.Literal(value=str() as text):
            return typing.Literal[text]
        case t.Literal(value=bool() | int() as value):
            return _checked(typing.Literal[value], type)
        case t.Literal(value=None):
            return None
        case t.Literal():
            return _checked(float, type)
        case t.Temporal(kind=kind):
            return _spelled(_MOMENTS[kind], type)
        case t.Uuid():
            return _spelled(uuid.UUID, type)
        case t.Verbatim():
            return typing.Annotated[StrictStr, Field(min_length=1)]
        case t.Schema():
            return _checked(Any, type)
        case t.Anything():
            return Any
        case t.Array() | t.Tuple() | t.Map() | t.Object() | t.Named() | t.Union():
            raise AssertionError("structures are built by _Building")
        case _:
            assert_never(type)


_MOMENTS: Final[Mapping[t.Moment, Any]] = {
    t.Moment.DATE: datetime.date,
    t.Moment.DATETIME: datetime.datetime,
    t.Moment.TIME: datetime.time,
}


def _string(type: t.String) -> Any:
    lengths = _lengths(type.min_chars, type.max_chars)
    format = None if type.format is None else FORMATS[type.format].pattern
    patterns = [pattern for pattern in (type.pattern, format) if pattern is not None]
    text = StrictStr if not patterns else _matching(patterns[0])
    for pattern in patterns[1:]:  # of two patterns Pydantic keeps the last
        text = _checked(text, t.String(pattern=pattern))
    return Annotated[text, lengths]


def _matching(pattern: str) -> Any:
    return Annotated[StrictStr, Field(pattern=_search(pattern))]


def _search(pattern: str) -> str:
    return f"^(?:{engine_pattern(pattern)})$"


def _annotated(annotation: Any, *metadata: Any) -> Any:
    for one in metadata:
        annotation = Annotated[annotation, one]
    return annotation


def _lengths(minimum: int, maximum: int | None) -> Any:
    return Field(min_length=minimum or None, max_length=maximum)


def _bounds(type: t.Integer | t.Number, convert: Callable[[Any], Any]) -> Any:
    def bound(value: object) -> Any:
        return None if value is None else convert(value)

    return Field(
        ge=bound(type.minimum),
        le=bound(type.maximum),
        gt=bound(type.exclusive_minimum),
        lt=bound(type.exclusive_maximum),
        multiple_of=type.multiple_of if isinstance(type, t.Integer) else None,
    )


def _whole(value: Any) -> Any:
    """Read 1.0 as 1, as JSON Schema does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _checked(annotation: Any, type: t.Type, *, passes: tuple[Any, ...] = ()) -> Any:
    """The annotation with a validator for a constraint that Pydantic does not have. Instances of `passes` pass."""

    def check(value: Any) -> Any:
        mismatches = [] if isinstance(value, passes) else find_mismatches(type, with_scalars(value, _exact))
        if mismatches:
            raise ValueError("; ".join(map(str, mismatches)))
        return value

    return Annotated[annotation, BeforeValidator(check)]


def _spelled(annotation: Any, type: t.Type) -> Any:
    """The annotation with a validator that accepts only the type's single spelling in text. Python objects pass."""
    return _checked(annotation, type, passes=(annotation,))


def _exact(scalar: Any) -> Any:
    if not isinstance(scalar, float):
        return scalar
    return Decimal(repr(scalar)) if abs(scalar) < float("inf") else "not a number"


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────


def _split_texts(arms: tuple[t.Type, ...]) -> tuple[tuple[str, ...], list[t.Type]]:
    """The string literals, which become one `Literal[...]`, and the other arms."""
    texts = tuple(arm.value for arm in arms if isinstance(arm, t.Literal) and isinstance(arm.value, str))
    others = [arm for arm in arms if not (isinstance(arm, t.Literal) and isinstance(arm.value, str))]
    return texts, others


def _python_names(type: t.Object) -> list[tuple[t.Field, str]]:
    """A Python name for every field: its own if it has one, else one made from its key."""
    taken: set[str] = set()
    found: list[tuple[t.Field, str]] = []
    for place in type.fields:
        name = re.sub(r"\W", "_", place.name or place.key).strip("_") or "field"
        name = f"field_{name}" if not name.isidentifier() else name
        while keyword.iskeyword(name) or name in taken or hasattr(BaseModel, name):
            name += "_"
        taken.add(name)
        found.append((place, name))
    return found


def _class_name(path: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in path.split("_") if word) or "Answer"
