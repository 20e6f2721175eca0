"""The result of converting a user's type to a hole type, and the limits that a converted type must keep."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pastalang.failures import PastaError
from pastalang.limits import MAX_FILE_BYTES, MAX_TYPE_PLACES
from pastalang.program import types as t
from pastalang.program.visit import Path, walk
from pastalang.values.describe import counted
from pastalang.values.fit import find_mismatches
from pastalang.values.json import JsonValue
from pastalang.values.lengths import count_values
from pastalang.values.paths import Mismatch


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


def type_name(text: str) -> str:
    """A name for a type: `OrderLine` for `order line`."""
    name = "".join(word[:1].upper() + word[1:] for word in re.findall("[A-Za-z0-9_]+", text))
    return name if re.match("[A-Za-z]", name) else f"Type{name}"


def definition_name(pointer: str) -> str | None:
    """The name of the definition that a JSON pointer leads to."""
    around, _, name = pointer.rpartition("/")
    return type_name(name) if around in ("#/$defs", "#/definitions") else None


class TooLarge(Exception):
    """A type with more parts than it may have, or deeper. The message says which."""


@dataclass(kw_only=True)
class Conversion(ABC):
    """One walk over what is converted. Parts that others refer to have a key, and those that are inside themselves a
    name. All problems are kept, so that they are reported at once."""

    types: dict[str, t.Type] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # by key, for the recursive ones
    notes: list[Note] = field(default_factory=list)
    problems: list[Mismatch] = field(default_factory=list)
    _done: dict[str, tuple[t.Type, int]] = field(default_factory=dict)  # with the number of its parts
    _open: list[str] = field(default_factory=list)
    _parts: int = 0

    @abstractmethod
    def bare_name(self, key: str) -> str:
        """What a recursive part is called, if no other part is."""

    def once(self, key: str | None, convert: Callable[[], t.Type]) -> t.Type:
        """The type of a part, converted where it is first met. A part that is being converted becomes a name.

        Ends a conversion within `refuses_large_types` if a type, all names written out, has grown too large.
        """
        before = self._parts
        self._parts += self._done[key][1] if key in self._done else 1
        if self._parts > MAX_TYPE_PLACES:
            raise TooLarge(f"with everything that it refers to written out, it has more than {MAX_TYPE_PLACES:,} parts")
        if key is None:
            return convert()
        if key in self._done:
            return self._done[key][0]
        if key in self._open:
            return t.Named(self._name_of(key))
        self._open.append(key)
        try:
            found = convert()
        finally:
            self._open.pop()
        if key in self.names:
            self.types[self.names[key]] = found
            found = t.Named(self.names[key])
        self._done[key] = found, self._parts - before
        return found

    def _name_of(self, key: str) -> str:
        """With a number if the name is taken."""
        if key not in self.names:
            bare = self.bare_name(key)
            name, number = bare, 2
            while name in self.names.values():
                name, number = f"{bare}{number}", number + 1
            self.names[key] = name
        return self.names[key]

    def fits(self, type: t.Type, value: JsonValue) -> bool:
        """Whether the value is known to fit the type. Of a type that is still being converted, no value is."""
        return not find_mismatches(type, value, self.types)


@contextmanager
def refuses_large_types(name: str) -> Iterator[None]:
    """Raises `NotExpressible` for a conversion that ends as `TooLarge`, or that is too deep for Python."""
    try:
        yield
    except TooLarge as problem:
        raise NotExpressible(name, [Mismatch((), str(problem))]) from None
    except RecursionError:
        raise NotExpressible(name, [Mismatch((), "its types are nested too deeply")]) from None


def check_uniqueness(converted: Converted, name: str) -> None:
    """Raises `NotExpressible` with every list or map that requires more different items or keys than there are."""
    found = [problem for path, type in _parts(converted) if (problem := _too_few_values(path, type)) is not None]
    if found:
        raise NotExpressible(name, found)


def check_enum_budget(converted: Converted, name: str) -> None:
    """Raises `NotExpressible` if the enums alone exceed the limits of a program: values or bytes."""
    found = [enum for path, type in _parts(converted) if (enum := _enum(path, type)) is not None]
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


def _parts(converted: Converted) -> Iterator[tuple[Path, t.Type]]:
    for type in (converted.type, *converted.types.values()):
        yield from walk(type)


def _too_few_values(path: Path, type: t.Type) -> Mismatch | None:
    required = type.min_items if isinstance(type, t.Array | t.Map) else 0
    if isinstance(type, t.Array) and type.unique:
        count = count_values(type.item)
        if count is not None and count < required:
            has_only = f"their type has only {counted(count, 'value')}"
            return Mismatch(path, f"{required} different items are required, but {has_only}")
    if isinstance(type, t.Map) and type.key_pattern is not None:
        count = count_values(t.Regex(type.key_pattern))
        if count is not None and count < required:
            return Mismatch(path, f"{required} different keys are required, but at most {count} match the pattern")
    return None


_MAX_SHOWN = 5  # fields that the message names
_SEPARATOR_BYTES = 4  # between two values, at least: a bar and white space


@dataclass(frozen=True, slots=True)
class _Enum:
    path: Path
    values: int
    size: int  # bytes


def _enum(path: Path, type: t.Type) -> _Enum | None:
    """The literals of a union, if it has any."""
    literals = [arm for arm in type.arms if isinstance(arm, t.Literal)] if isinstance(type, t.Union) else []
    if not literals:
        return None
    size = sum(len(str(literal.value).encode()) + _SEPARATOR_BYTES for literal in literals)
    return _Enum(path, len(literals), size)
