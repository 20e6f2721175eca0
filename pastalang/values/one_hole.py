"""What can be enforced inside a value that is decoded as one hole: token limits of strings, and items that differ.

While a value is written, only its path is known. So at one place the items of all arrays differ, or those of none; a
type that asks for both is refused by name. A place is a path with the types that a value may have there. Recursive
types lead back to known places, so a type has few places, although its paths may have no end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeAlias

from pastalang import limits
from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES, arms_of, json_kinds, parts_of, reached
from pastalang.values.describe import describe
from pastalang.values.lengths import declared_max_tokens

Quoted = t.String | t.Regex | t.Verbatim
QUOTE_TOKENS: Final = 2  # of a string in JSON


# ── token limits ───────────────────────────────────────────────────────────────────────────────────────


def limit_without_text(type: t.Type) -> int | None:
    """The token limit of a string in JSON, if the quotes use it up; None if it has room or asks for no text."""
    if not isinstance(type, t.String | t.Verbatim) or type.max_tokens is None or type.max_tokens > QUOTE_TOKENS:
        return None
    needs_none = isinstance(type, t.String) and (type.max_chars == 0 or type.auto is not None)
    return None if needs_none else type.max_tokens


def limited_strings(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> tuple[Quoted, ...]:
    """The strings inside the type that have a token limit of their own."""
    found = (part for part in _inside(type, types) if isinstance(part, Quoted) and part.max_tokens is not None)
    return tuple(dict.fromkeys(found))


def is_always_one_hole(type: t.Type) -> bool:
    """Returns True if a value of the type is always decoded as one hole."""
    if isinstance(type, t.Array) and type.max_tokens is None:
        return not isinstance(type.item, t.Object) and not any(isinstance(p, t.Object) for p in _inside(type, NO_TYPES))
    return isinstance(type, t.Array | t.Tuple | t.Map)


def unenforced_limit(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> str | None:
    """Why a token limit inside the type cannot be enforced; None if all can."""
    if (ambiguous := _ambiguous_bracket(arms_of(type, types), types)) is not None:
        return _limit_message("max", ambiguous)
    return _first_unenforced(_inside(type, types), types)


def unenforced_limit_written_in(type: t.Type) -> str | None:
    """Why a token limit that the type itself writes cannot be enforced. Types that it names are left out."""
    return _first_unenforced(_inside(type, NO_TYPES), NO_TYPES)


def unenforced_limit_of_recursion(name: str, types: Mapping[str, t.Type]) -> str | None:
    """Why a token limit inside a recursive type cannot be enforced. Its own limit counts: it is inside itself."""
    return _first_unenforced(_inside(t.Tuple((t.Named(name),)), types), types)


def _first_unenforced(parts: Iterable[t.Type], types: Mapping[str, t.Type]) -> str | None:
    for part in parts:
        if declared_max_tokens(part) is not None and not isinstance(part, Quoted):
            limit = "max" if isinstance(part, t.Anything) else "max_tokens"
            return _limit_message(limit, part)
        if isinstance(part, t.Union) and (ambiguous := _ambiguous_string(part, types)) is not None:
            return _limit_message("max", ambiguous)
    return None


def _limit_message(limit: str, part: t.Type) -> str:
    return f"`{limit}` of {describe(part)} cannot be enforced inside a value that is written as a whole"


ADVICE = (
    "remove it and limit the whole value with `max_tokens`; inside the value, ranges of numbers, `max_chars`,"
    " and the `max` of a string that is the only text of its union are enforced"
)


def _inside(type: t.Type, types: Mapping[str, t.Type]) -> Iterator[t.Type]:
    """All types inside the type, each named type once. The outermost arms, limited as a whole, are left out."""
    whole = t.Tuple(tuple(part for arm in arms_of(type, types) for _, part in parts_of(arm)))
    return (part for part in islice(reached(whole, types), 1, None) if not isinstance(part, t.Named))


def _ambiguous_string(union: t.Union, types: Mapping[str, t.Type]) -> t.Type | None:
    """A string with a limit in a union where the first character of a value does not identify that string."""
    arms = arms_of(union, types)
    texts = [arm for arm in arms if may_be_text(arm)]
    limited = (arm for arm in texts if isinstance(arm, Quoted) and arm.max_tokens is not None)
    return next(limited, None) if len(texts) > 1 else _ambiguous_bracket(arms, types)


def _ambiguous_bracket(arms: list[t.Type], types: Mapping[str, t.Type]) -> t.Type | None:
    """A string with a limit inside an arm, where another arm begins with the same bracket."""
    for is_object in (True, False):
        opened = [arm for arm in arms if opens(arm, is_object=is_object)]
        for arm in opened if len(opened) > 1 else ():
            if strings := limited_strings(arm, types):
                return strings[0]
    return None


def opens(type: t.Type, *, is_object: bool) -> bool:
    """Returns True if a value of the type may begin with a brace (`is_object`) or with a bracket."""
    return ("object" if is_object else "array") in json_kinds(type)


def may_be_null(type: t.Type) -> bool:
    """Returns True if null is a value of the type. Recursive types are not looked into."""
    arms = arms_of(type, NO_TYPES)
    return any(isinstance(arm, t.Null | t.Anything) or arm == t.Literal(None) for arm in arms)


def may_be_text(type: t.Type) -> bool:
    """Returns True if a value of the type may begin with a quote."""
    return "string" in json_kinds(type)


# ── items that differ ──────────────────────────────────────────────────────────────────────────────────

JsonPath: TypeAlias = tuple[str | None, ...]  # a step for each array (None) or object (its key) around a place


class AmbiguousItems(ValueError):
    """Items that must differ, at a place where it is not known whether they must."""


@dataclass(frozen=True, slots=True)
class _Place:
    """`differ`: the items of an array that stands here must differ. The others are the places one step further on."""

    differ: bool
    item: int | None
    keys: Mapping[str, int | None]
    other_keys: int | None


@dataclass(frozen=True, slots=True)
class UniquePlaces:
    """The places of one type, the first for the whole value. It is true if items differ at any of them."""

    places: tuple[_Place, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.places)

    def must_differ(self, path: JsonPath) -> bool:
        """Returns True if the items of an array at the path must differ."""
        at: int | None = 0
        for step in path:
            if at is None or not self.places:
                return False
            place = self.places[at]
            at = place.item if step is None else place.keys.get(step, place.other_keys)
        return at is not None and bool(self.places) and self.places[at].differ


NOWHERE: Final = UniquePlaces()
DIFFER_ADVICE: Final = "write `unique=true` for all lists that may stand there, or for none of them"


def unique_places(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> UniquePlaces:
    """The places inside a value that is written as a whole. Raises `AmbiguousItems`."""
    holding = _holding(type, types)
    return _Places(types, holding).all(type) if id(type) in holding else NOWHERE


def ambiguous_items(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> str | None:
    """Why items inside the type cannot be made to differ; None if they can, or need not."""
    try:
        unique_places(type, types)
    except AmbiguousItems as problem:
        return str(problem)
    return None


class _Places:
    def __init__(self, types: Mapping[str, t.Type], holding: frozenset[int]) -> None:
        self._types = types
        self._holding = holding
        self._numbers: dict[tuple[int, ...], int] = {}
        self._arms: list[list[t.Type]] = []

    def all(self, type: t.Type) -> UniquePlaces:
        self._number([type])
        places: list[_Place] = []
        while len(places) < len(self._arms):
            places.append(self._place(self._arms[len(places)]))
        return UniquePlaces(tuple(places))

    def _number(self, parts: Iterable[t.Type]) -> int | None:
        """The number of the place of these types; None if no items differ there or further in."""
        arms = list({id(arm): arm for part in parts for arm in arms_of(part, self._types)}.values())
        if not any(id(arm) in self._holding for arm in arms):
            return None
        key = tuple(sorted(map(id, arms)))
        if key not in self._numbers:
            if len(self._arms) >= limits.MAX_TYPE_PLACES:
                raise AmbiguousItems(f"its parts stand at more than {limits.MAX_TYPE_PLACES:,} different places")
            self._numbers[key] = len(self._arms)
            self._arms.append(arms)
        return self._numbers[key]

    def _place(self, arms: list[t.Type]) -> _Place:
        differ = _differ(arms)
        objects = [arm for arm in arms if isinstance(arm, t.Object | t.Map)]
        anything = [arm for arm in arms if isinstance(arm, t.Schema | t.Anything)]
        names = dict.fromkeys(field.key for one in objects if isinstance(one, t.Object) for field in one.fields)
        free = [one.value for one in objects if isinstance(one, t.Map)]
        return _Place(
            differ,
            item=self._number([*_items(arms), *anything]),
            keys=MappingProxyType({key: self._number([*_at(key, objects), *free, *anything]) for key in names}),
            other_keys=self._number([*free, *anything]),
        )


def _differ(arms: list[t.Type]) -> bool:
    arrays = [arm for arm in arms if isinstance(arm, t.Array | t.Tuple | t.Schema | t.Anything)]
    unique = [arm for arm in arrays if isinstance(arm, t.Array) and arm.unique]
    other = next((arm for arm in arrays if not (isinstance(arm, t.Array) and arm.unique)), None)
    if unique and other is not None:
        repeated = "a list whose items may repeat" if isinstance(other, t.Array | t.Tuple) else describe(other)
        raise AmbiguousItems(f"that items differ cannot be enforced where {repeated} may stand as well")
    return bool(unique)


def _items(arms: list[t.Type]) -> Iterator[t.Type]:
    for arm in arms:
        if isinstance(arm, t.Array):
            yield arm.item
        elif isinstance(arm, t.Tuple):
            yield from arm.items


def _at(key: str, objects: list[t.Object | t.Map]) -> Iterator[t.Type]:
    for one in objects:
        if isinstance(one, t.Object):
            yield from (field.type for field in one.fields if field.key == key)


def _holding(type: t.Type, types: Mapping[str, t.Type]) -> frozenset[int]:
    """The ids of the types, in the type and those it names, that are or contain an array whose items differ."""
    holders: dict[int, list[int]] = {}  # each type with the types directly around it
    unique: list[int] = []
    waiting = [type]
    while waiting:
        part = waiting.pop()
        if isinstance(part, t.Array) and part.unique:
            unique.append(id(part))
        inner = (
            [types[part.name]]
            if isinstance(part, t.Named) and part.name in types
            else [inside for _, inside in parts_of(part)]
        )
        for inside in inner:
            if id(inside) not in holders:
                holders[id(inside)] = []
                waiting.append(inside)
            holders[id(inside)].append(id(part))
    found, frontier = set(unique), unique
    while frontier:
        frontier = [around for one in frontier for around in holders.get(one, ()) if around not in found]
        found.update(frontier)
    return frozenset(found)
