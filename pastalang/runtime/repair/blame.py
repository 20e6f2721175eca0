"""Which fields a validator of a whole object looked at: the exception that it raised comes in, keys go out.

A model validator names no field. What its code reads of the object is written in the code: attributes (`self.total`)
and constant keys (`data["total"]`). Where neither is found nobody knows, and the whole object is concerned.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, TracebackType
from typing import Any

from pydantic import AliasChoices, AliasPath, BaseModel


def fields_read(raised: Exception) -> tuple[str, ...]:
    """The keys that may stand in the JSON, in no object in particular; names of anything else are among them."""
    words: dict[str, None] = {}
    names: dict[str, tuple[str, ...]] = {}
    for code, variables in _frames(raised.__traceback__):
        words.update(dict.fromkeys(_words_of(code)))
        for value in variables:
            names |= _keys_by_name(value)
    return tuple(dict.fromkeys(key for word in words for key in (word, *names.get(word, ()))))


def _frames(traceback: TracebackType | None) -> Iterator[tuple[CodeType, tuple[Any, ...]]]:
    while traceback is not None:
        frame = traceback.tb_frame
        yield frame.f_code, tuple(frame.f_locals.values())
        traceback = traceback.tb_next


def _words_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):  # a comprehension or a lambda inside
            yield from _words_of(constant)


def _keys_by_name(value: Any) -> dict[str, tuple[str, ...]]:
    model = value if isinstance(value, type) else type(value)
    if not issubclass(model, BaseModel):
        return {}
    return {name: _aliases(field.validation_alias or field.alias) for name, field in model.model_fields.items()}


def _aliases(alias: str | AliasPath | AliasChoices | None) -> tuple[str, ...]:
    match alias:
        case str():
            return (alias,)
        case AliasPath(path=[str(first), *_]):
            return (first,)
        case AliasChoices(choices=choices):
            return tuple(key for choice in choices for key in _aliases(choice))
        case _:
            return ()
