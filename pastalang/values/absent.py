"""Keys that may be left out. A model writes null for such a key, and the answer that a caller gets is without the key.

The text of an answer is cut where the key stands, also while it is still being written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES, arms_of, flat_arms, reached, with_parts
from pastalang.values.conversion import Converted
from pastalang.values.fit import find_mismatches, may_leave_out
from pastalang.values.json import NotJson, json_at, parse_json

Cut: TypeAlias = tuple[int, int]
Members: TypeAlias = Callable[[str], tuple[t.Type, bool]]  # of a key: its type, and whether it may be left out

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR: Final = re.compile(r"[^\s,\]}]+")
_NULL: Final = "null"


def absent_in(text: str, type: t.Type, types: Mapping[str, t.Type] = NO_TYPES, *, is_whole: bool = True) -> list[Cut]:
    """What is cut from the text of a value, from left to right; of the beginning of one, also all that depends on what
    follows."""
    if not may_leave_out(type, types):
        return []
    cuts, end = _cuts_and_end(text, type, types)
    return cuts if is_whole else [*cuts, (end, len(text))]


def without_cuts(text: str, cuts: list[Cut], offset: int = 0) -> str:
    """A part of a text, which begins at `offset`, without what is cut from the text."""
    parts, at = [], offset
    for start, end in cuts:
        parts.append(text[max(at - offset, 0) : max(start - offset, 0)])
        at = max(at, end)
    return "".join(parts) + text[max(at - offset, 0) :]


def moved(place: int, cuts: list[Cut]) -> int:
    """Where a place of the text is in the text that is left."""
    return place - sum(min(place, end) - start for start, end in cuts if start < place)


def _cuts_and_end(text: str, type: t.Type, types: Mapping[str, t.Type]) -> tuple[list[Cut], int]:
    walker = _Walker(text, types)
    try:
        walker.value(type, 0)
    except _Unfinished as found:
        return walker.cuts, found.certain
    return walker.cuts, len(text)


class _Unfinished(Exception):
    """The text ends inside a value. Only what stands before `certain` is not changed by what follows."""

    def __init__(self, certain: int) -> None:
        self.certain = certain


@dataclass(slots=True)
class _Walker:
    text: str
    types: Mapping[str, t.Type]
    cuts: list[Cut] = field(default_factory=list)

    def value(self, type: t.Type, at: int) -> int:
        """Goes through a value that fits its type, and returns its end."""
        at = self.space(at, len(self.text))
        match self.text[at]:
            case "{":
                return self.members(_members_of(self.shape(type, at, dict)), at)
            case "[":
                return self.items(self.shape(type, at, list), at)
            case '"':
                return self.string(at, len(self.text))
            case _:
                found = _SCALAR.match(self.text, at)
                return at + 1 if found is None else found.end()

    def space(self, at: int, certain: int) -> int:
        """The place after white space, where something stands."""
        found = _SPACE.match(self.text, at)
        at = at if found is None else found.end()
        if at >= len(self.text):
            raise _Unfinished(certain)
        return at

    def string(self, at: int, certain: int) -> int:
        found = _STRING.match(self.text, at)
        if found is None:
            raise _Unfinished(certain)
        return found.end()

    def shape(self, type: t.Type, at: int, kind: type[dict] | type[list]) -> t.Type:  # type: ignore[type-arg]
        """Which type the value that begins there has. Of several objects, only the whole value says which."""
        resolved = [self.resolved(arm) for arm in flat_arms(self.resolved(type))]
        wanted = (t.Object, t.Map) if kind is dict else (t.Array, t.Tuple)
        fitting = [arm for arm in resolved if isinstance(arm, wanted)]
        if len(fitting) <= 1 or not any(may_leave_out(arm, self.types) for arm in fitting):
            return fitting[0] if len(fitting) == 1 else t.Anything()
        try:
            value = parse_json(json_at(self.text, at))
        except NotJson:
            raise _Unfinished(at) from None
        return next((arm for arm in fitting if not find_mismatches(arm, value, self.types)), t.Anything())

    def resolved(self, type: t.Type) -> t.Type:
        while isinstance(type, t.Named):
            type = self.types[type.name]
        return type

    def items(self, type: t.Type, at: int) -> int:
        number, at = 0, self.space(at + 1, len(self.text))
        while self.text[at] != "]":
            if self.text[at] == ",":
                at += 1
            item = type.items[number] if isinstance(type, t.Tuple) else t.Anything()
            at = self.value(type.item if isinstance(type, t.Array) else item, at)
            number, at = number + 1, self.space(at, len(self.text))
        return at + 1

    def members(self, of: Members, at: int) -> int:
        """`left` is where the last key that stays has ended: what follows it may be cut."""
        left, is_first, absent, first_absent = at + 1, True, 0, 0
        while True:
            at = self.space(at, left)
            if self.text[at] in "{,":
                at = self.space(at + 1, left)
            if self.text[at] == "}":
                if absent:
                    self.cuts.append((left, at) if is_first else (left, absent))
                return at + 1
            start, end = at, self.string(at, left)
            at = self.space(self.space(end, left) + 1, left)
            type, may_lack = of(json.loads(self.text[start:end]))
            if may_lack and self.text[at] == _NULL[0]:
                if not self.text.startswith(_NULL, at):
                    raise _Unfinished(left)
                at = absent = at + len(_NULL)
                first_absent = first_absent or start
                continue
            if absent:
                self.cuts.append((first_absent, start) if is_first else (left, absent))
            at = left = self.value(type, at)
            is_first, absent = False, 0


def _members_of(type: t.Type) -> Members:
    if isinstance(type, t.Object):
        known = {one.key: (one.type, one.default is not None and one.default.is_absent) for one in type.fields}
        return lambda key: known.get(key, (t.Anything(), False))
    value = type.value if isinstance(type, t.Map) else t.Anything()
    return lambda key: (value, False)


# ── keys with a default, as `extract` asks for them ───────────────────────────────────────────────────


def leaving_out_defaults(found: Converted) -> Converted:
    """The type with `| null = absent` for each key that has a default which its type could not say by null.

    A key with a single value stays, for there is nothing to invent, and so does a list or a map, which may be empty.
    So does the discriminator of a union: without it, nobody knows which member the value is.
    """
    types = found.types
    unions = [part for part in reached(found.type, types) if isinstance(part, t.Union) and part.discriminator]
    tags = {(id(arm), union.discriminator) for union in unions for arm in arms_of(union, types)}

    def changed(type: t.Type) -> t.Type:
        rest = with_parts(type, lambda _, part: changed(part))
        if not isinstance(rest, t.Object):
            return rest
        fields = (one if (id(type), one.key) in tags else _optional(one, types) for one in rest.fields)
        return replace(rest, fields=tuple(fields))

    return replace(found, type=changed(found.type), types={name: changed(one) for name, one in types.items()})


def _optional(one: t.Field, types: Mapping[str, t.Type]) -> t.Field:
    has_value = one.default is not None and not one.default.is_absent
    says_it = isinstance(one.type, t.Literal | t.Array | t.Map) or not find_mismatches(one.type, None, types)
    return replace(one, type=_or_null(one.type), default=t.ABSENT) if has_value and not says_it else one


def _or_null(type: t.Type) -> t.Type:
    if isinstance(type, t.Union) and type.discriminator is None:
        return replace(type, arms=(*type.arms, t.Null()))
    return t.Union((type, t.Null()))
