"""A Pydantic model with None for what is missing, and its values as they are read from JSON that grows."""

from __future__ import annotations

import types
import typing
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import EnumType
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin
from weakref import WeakKeyDictionary, ref

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)
from typing_extensions import TypeAliasType

from pastalang.values.json import JsonValue
from pastalang.values.pydantic.from_core import class_name, json_of, keys_of, validate_value

_KNOWN: Final[WeakKeyDictionary[type[BaseModel], type[BaseModel]]] = WeakKeyDictionary()


def partial_model(model: type[BaseModel], around: frozenset[Any] = frozenset()) -> type[BaseModel]:
    """The model with None for everything that is missing, in the models inside it too; what a type fixes is there from
    the start. It has no validators and no bounds, because those are about whole values.
    """
    if model not in _KNOWN:
        keys = keys_of(model)
        fields: dict[str, Any] = {}
        for name, field in model.model_fields.items():
            part = _partial_type(field.annotation, around | {model})
            about: dict[str, Any] = {"description": field.description, "serialization_alias": field.serialization_alias}
            about |= {} if _is_root(model) else {"validation_alias": keys[name]}
            fields[name] = (part | None, Field(default=_fixed(part), **about))
        base = _PartialRoot if _is_root(model) else _PartialModel
        _KNOWN.setdefault(model, create_model(f"Partial{model.__name__}", __base__=base, **fields))
    return _KNOWN[model]


class _PartialModel(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())


class _PartialRoot(RootModel[Any]):
    model_config = ConfigDict(arbitrary_types_allowed=True)


def _partial_type(found: Any, around: frozenset[Any]) -> Any:
    origin, arguments = get_origin(found), get_args(found)
    if origin is Annotated:
        return _partial_type(arguments[0], around)
    if isinstance(found, type) and origin is None and issubclass(found, BaseModel):
        return _made_later(found) if found in around else partial_model(found, around)
    if isinstance(found, TypeAliasType) and not isinstance(found.__value__, str):
        return Any if found in around else _partial_type(found.__value__, around | {found})
    if origin in (Union, types.UnionType):
        return Union[tuple(_partial_type(one, around) for one in arguments)]  # noqa: UP007
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = (_partial_type(one, around) for one in arguments)
        return dict[key, value | None]  # type: ignore[valid-type]
    if isinstance(origin, type) and issubclass(origin, Collection):
        items = [_partial_type(one, around) for one in arguments if one is not ...]
        item: Any = Union[(*items, None)]
        return list[item]
    return found


def _made_later(model: type[BaseModel]) -> Any:
    """The partial model of a model that is inside itself."""
    known = ref(model)
    return Annotated[Any, BeforeValidator(lambda value: partial_model(known()).model_validate(value))]  # type: ignore[arg-type]


def _fixed(part: Any) -> Any:
    """The one value of a type, or None."""
    options = get_args(part) if get_origin(part) is typing.Literal else part if isinstance(part, EnumType) else ()
    return next(iter(options)) if len(options) == 1 else None


def as_partial(value: BaseModel) -> BaseModel:
    """A whole value, with the partial models for the models in it."""
    made = partial_model(type(value))
    return made().model_copy(
        update={name: _as_part(getattr(value, name), field.annotation) for name, field in made.model_fields.items()}
    )


def _as_part(value: Any, part: Any) -> Any:
    if isinstance(value, BaseModel):
        return as_partial(value)
    origin = dict if isinstance(value, dict) else list if type(value) in (list, tuple, set, frozenset, deque) else None
    found = next((one for one in (part, *get_args(part)) if origin is not None and get_origin(one) is origin), None)
    if found is None:
        return value
    *_, inner = get_args(found)
    if isinstance(value, dict):
        return {key: _as_part(one, inner) for key, one in value.items()}
    return [_as_part(one, inner) for one in value]


@dataclass(frozen=True, slots=True)
class Arm:
    """A step of a path into an arm of a union, by the name of a class or a literal that only it has."""

    label: str


Path: TypeAlias = tuple[Any, ...]  # keys, numbers of items, and arms


@dataclass(frozen=True, slots=True)
class PartialReader:
    """Reads the JSON that there is of a value. What its type objects to is missing."""

    model: type[BaseModel]
    adapters: dict[int, tuple[Any, TypeAdapter[Any]]] = field(default_factory=dict)  # a type stays while its id is used

    def read(self, raw: JsonValue, path: Path = (), old: Any = None) -> BaseModel:
        """With a path, only what is there has changed since the old value, with which the new one shares the rest."""
        found: BaseModel | None = self._read(self.model, raw, path, old)
        return self.model() if found is None else found

    def _read(self, found: Any, raw: Any, path: Path, old: Any) -> Any:
        if raw is None:
            return None
        if get_origin(found) in (Union, types.UnionType):
            arms = [arm for arm in get_args(found) if arm is not NoneType and (not path or _leads_into(arm, path))]
            return self._read(arms[0], raw, path, old) if len(arms) == 1 else self._whole(found, raw)
        if _is_root(found):
            known = old.root if isinstance(old, found) else None
            return found.model_construct(self._read(found.model_fields["root"].annotation, raw, path, known))
        path = path[1:] if path and isinstance(path[0], Arm) else path
        below = {path[0]: path[1:]} if path else {}
        if get_origin(found) is list and isinstance(raw, list):
            items = [*old] if path and isinstance(old, list) else []
            changed = below if items else range(len(raw))
            items += [None] * (len(raw) - len(items))
            for at in changed:
                items[at] = self._read(get_args(found)[0], raw[at], below.get(at, ()), items[at])
            return items
        if isinstance(found, type) and issubclass(found, _PartialModel) and isinstance(raw, dict):
            made, keys = (old, below) if path and isinstance(old, found) else (found(), raw)
            parts = {
                name: self._read(field.annotation, raw.get(key), below.get(key, ()), getattr(made, name))
                for name, field in found.model_fields.items()
                if (key := field.validation_alias) in keys
            }
            return made.model_copy(update=parts)
        return self._whole(found, raw)

    def _whole(self, found: Any, raw: JsonValue) -> Any:
        if id(found) not in self.adapters:
            whole = create_model("Whole", __base__=_PartialRoot, root=(found, ...))
            self.adapters[id(found)] = found, TypeAdapter(whole)
        try:
            return validate_value(self.adapters[id(found)][1], raw).root
        except ValidationError:
            return None


def _leads_into(found: Any, path: Path) -> bool:
    """Whether the arm of a union may have what is at the path."""
    label = path[0].label if isinstance(path[0], Arm) else None
    step = next((one for one in path if not isinstance(one, Arm)), None)
    if get_origin(found) in (Union, types.UnionType):
        return any(_leads_into(arm, path) for arm in get_args(found))
    if _is_root(found):
        return _leads_into(found.model_fields["root"].annotation, path)
    if isinstance(found, type) and issubclass(found, _PartialModel):
        fields = found.model_fields.values()
        names = {class_name(found).removeprefix("Partial"), *(str(json_of(one.default)) for one in fields)}
        return label in (None, *names) and step in (one.validation_alias for one in fields)
    return get_origin(found) is list and isinstance(step, int)


def _is_root(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, RootModel)
