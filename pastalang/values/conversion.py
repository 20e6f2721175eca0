"""The result of converting a user's type to a hole type, and the limits that a converted type must keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pastalang.errors import PastaError
from pastalang.limits import MAX_FILE_BYTES, MAX_TYPE_PLACES
from pastalang.program import types as t
from pastalang.values.cardinality import count_values
from pastalang.values.mismatch import Mismatch, path_text


@dataclass(frozen=True, slots=True)
class Note:
    """A constraint that the hole type does not enforce. The user's model applies it to the finished value."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


@dataclass(frozen=True)
class Converted:
    """A hole type and the recursive types it names."""

    type: t.Type
    types: Mapping[str, t.Type]
    notes: tuple[Note, ...] = ()


class NotExpressible(PastaError):
    """Parts of a model or a schema that no hole type can express, each with its path."""

    def __init__(self, name: str, problems: Iterable[Mismatch]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__(f"{name} cannot be expressed:\n" + "\n".join(f"  {problem}" for problem in self.problems))


_Path = tuple[str | int, ...]


def check_uniqueness(converted: Converted, name: str) -> None:
    """Raises `NotExpressible` with all of them."""
    found = [mismatch for type in (converted.type, *converted.types.values()) for mismatch in _misfits(type, ())]
    if found:
        raise NotExpressible(name, found)


def _misfits(type: t.Type, path: _Path) -> Iterator[Mismatch]:
    match type:
        case t.Array(item=item, min_items=least, unique=unique):
            count = count_values(item) if unique else None
            if count is not None and count < least:
                yield Mismatch(path, f"{least} different items are required, but their type has only {count} values")
            yield from _misfits(item, (*path, "[]"))
        case t.Map(value=value, key_pattern=pattern, min_items=least):
            count = None if pattern is None else count_values(t.Regex(pattern))
            if count is not None and count < least:
                yield Mismatch(path, f"{least} different keys are required, but at most {count} match the pattern")
            yield from _misfits(value, (*path, "{}"))
        case t.Union(arms=arms):
            for arm in arms:
                yield from _misfits(arm, path)
        case t.Tuple(items=items):
            for number, item in enumerate(items):
                yield from _misfits(item, (*path, number))
        case t.Object(fields=fields):
            for field in fields:
                yield from _misfits(field.type, (*path, field.key))
        case _:
            return


_MAX_SHOWN = 5  # fields that the message names
_SEPARATOR_BYTES = 4  # between two values, at least: a bar and white space


@dataclass(frozen=True, slots=True)
class _Enum:
    path: tuple[str | int, ...]
    values: int
    size: int  # bytes


def check_enum_budget(converted: Converted, name: str) -> None:
    """Raises `NotExpressible` if the enums alone exceed the limits of a program: values or bytes."""
    found = [enum for type in (converted.type, *converted.types.values()) for enum in _enums(type, ())]
    values, size = sum(enum.values for enum in found), sum(enum.size for enum in found)
    if values > MAX_TYPE_PLACES:
        largest = sorted(found, key=lambda enum: -enum.values)[:_MAX_SHOWN]
        together = f"all enums together have {values:,}; the limit is {MAX_TYPE_PLACES:,}"
    elif size > MAX_FILE_BYTES:
        largest = sorted(found, key=lambda enum: -enum.size)[:_MAX_SHOWN]
        together = f"all enums together are {size:,} bytes; the limit is {MAX_FILE_BYTES:,}"
    else:
        return
    raise NotExpressible(
        name, [Mismatch(enum.path, f"an enum of {enum.values:,} values; {together}") for enum in largest]
    )


def unbounded_lists(converted: Converted) -> Iterator[str]:
    """The path of every list of objects without a maximum length."""
    for type in (converted.type, *converted.types.values()):
        for path in _without_end(type, ()):
            yield path_text(path)


def _without_end(type: t.Type, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    match type:
        case t.Array(item=item, max_items=most, max_tokens=None, unique=False):
            if isinstance(item, t.Object) and most is None:
                yield path
            yield from _without_end(item, (*path, "[]"))
        case t.Union(arms=arms):
            for arm in arms:
                yield from _without_end(arm, path)
        case t.Object(fields=fields):
            for field in fields:
                yield from _without_end(field.type, (*path, field.key))
        case _:
            return


def _enums(type: t.Type, path: tuple[str | int, ...]) -> Iterator[_Enum]:
    """Every union of literals with its path."""
    match type:
        case t.Union(arms=arms):
            literals = [arm for arm in arms if isinstance(arm, t.Literal)]
            if literals:
                size = sum(len(str(literal.value).encode()) + _SEPARATOR_BYTES for literal in literals)
                yield _Enum(path, len(literals), size)
            for arm in arms:
                yield from _enums(arm, path)
        case t.Array(item=item):
            yield from _enums(item, (*path, "[]"))
        case t.Map(value=value):
            yield from _enums(value, (*path, "{}"))
        case t.Tuple(items=items):
            for number, item in enumerate(items):
                yield from _enums(item, (*path, number))
        case t.Object(fields=fields):
            for field in fields:
                yield from _enums(field.type, (*path, field.key))
        case _:
            return
