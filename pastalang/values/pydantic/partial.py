"""A Pydantic model of the values that another one has so far: its fields, each of which may still be missing."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Union, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from pastalang.values.json import JsonValue, write_json

_KNOWN: Final[WeakKeyDictionary[type[BaseModel], type[BaseModel]]] = WeakKeyDictionary()


def partial_model(model: type[BaseModel]) -> type[BaseModel]:
    """The model with None for everything that is missing, in the models inside it too. It has no validators and no
    bounds, because those are about whole values. The model inside itself is a dict.
    """
    if model not in _KNOWN:
        _KNOWN[model] = _made(model, frozenset())
    return _KNOWN[model]


def read_partial(model: type[BaseModel], value: Mapping[str, JsonValue]) -> BaseModel:
    """The values that there are. One that its type objects to is missing."""
    left = dict(value)
    while True:
        try:
            return model.model_validate_json(write_json(left))
        except ValidationError as problem:
            wrong = {str(error["loc"][0]) for error in problem.errors(include_url=False) if error["loc"]}
            kept = {key: part for key, part in left.items() if key not in wrong}
            left = kept if len(kept) < len(left) else {}


def _made(model: type[BaseModel], around: frozenset[type]) -> type[BaseModel]:
    fields: dict[str, Any] = {
        name: (
            _partial_type(field.annotation, around | {model}) | None,
            Field(
                default=None, alias=field.alias, validation_alias=field.validation_alias, description=field.description
            ),
        )
        for name, field in model.model_fields.items()
    }
    config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)
    made: type[BaseModel] = create_model(f"Partial{model.__name__}", __config__=config, **fields)
    return made


def _partial_type(found: Any, around: frozenset[type]) -> Any:
    origin, arguments = get_origin(found), get_args(found)
    if origin is Annotated:
        return _partial_type(arguments[0], around)
    if isinstance(found, type) and origin is None and issubclass(found, BaseModel):
        return dict[str, Any] if found in around else _made(found, around)
    if origin in (Union, types.UnionType):
        return Union[tuple(_partial_type(one, around) for one in arguments)]  # noqa: UP007
    if isinstance(origin, type) and issubclass(origin, Mapping):
        part: Any = _partial_type(arguments[1], around) | None
        return dict[str, part]
    if isinstance(origin, type) and issubclass(origin, Collection):
        items = [_partial_type(one, around) for one in arguments if one is not ...]
        item: Any = Union[(*items, None)]
        return list[item]
    return found
