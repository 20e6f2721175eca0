"""The position of a JSON prefix in its type: the type of the open string, and prefixes that share a mask."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pastalang.program import types as t
from pastalang.program.visit import arms_of
from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.grammar.json_prefix import JsonPrefix
from pastalang.runtime.constraints.grammar.lark import Patterned
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.values.json import parse_json, write_json
from pastalang.values.one_hole import Quoted, may_be_text, opens

StringType: TypeAlias = Quoted | Patterned
KeepMask: TypeAlias = Callable[[TokenMask], None]
_FIRST = 2  # beginnings whose masks are computed in advance
_SHORT, _MAX_KEPT = 64, 128  # bytes of a prefix that is its own cache key, and masks to cache
_STRING, _WORD = re.compile(rb'"(?:[^"\\]|\\.)*"'), re.compile(rb"[-+.0-9a-zA-Z]+")
# The stages of a number: after a sign, a zero, whole digits, the exponent's letter, its sign, its digits.
_NUMBERS = tuple(
    (b"\x00" + kind, re.compile(begun))
    for kind, begun in (
        (b"-", rb"-"), (b"0", rb"-?0"), (b"1", rb"-?[1-9][0-9]*"),
        (b"e", rb"[-0-9.]+[eE]"), (b"+", rb"[-0-9.]+[eE][+-]"), (b"9", rb"[-0-9.]+[eE][+-]?[0-9]+"),
    )
)  # fmt: skip


def shape(before: bytes) -> bytes:
    """The structure of a text without its strings, numbers and words. Texts with equal shapes have equal masks."""
    return _WORD.sub(b"0", _STRING.sub(b"0", before))


def is_free(string: StringType) -> bool:
    return isinstance(string, t.String) and string.pattern is None and string.format is None


def string_at(type: t.Type, types: Mapping[str, t.Type], prefix: JsonPrefix) -> StringType | None:
    """The type of the open string; None if there are several possible types."""
    here = type_at(type, types, prefix)
    written = [arm for arm in arms_of(here, types) if may_be_text(arm)]
    if len(written) != 1:
        return None
    if isinstance(written[0], t.Anything):
        return t.String()
    return written[0] if isinstance(written[0], StringType) else None


def type_at(type: t.Type, types: Mapping[str, t.Type], prefix: JsonPrefix) -> t.Type | None:
    """The type of the open string or number; None if the types around it are ambiguous."""
    here: t.Type | None = type
    ends = [*(around.begun - 1 for around in prefix.stack[1:]), prefix.string if prefix.word is None else prefix.word]
    for around, end in zip(prefix.stack, ends, strict=False):
        found = [arm for arm in arms_of(here, types) if opens(arm, is_object=around.is_object)]
        if len(found) != 1:
            return None
        if isinstance(found[0], t.Tuple):
            items = parse_json((b"[" + prefix.raw[around.begun : end].rstrip(b", ") + b"]").decode())
            here = found[0].items[len(items)] if isinstance(items, list) and len(items) < len(found[0].items) else None
        else:
            here = _within(found[0], around.taken[-1] if around.is_object else None)
        if here is None:
            return None
    return here


def _within(type: t.Type, key: str | None) -> t.Type | None:
    match type:
        case t.Array(item=item):
            return item
        case t.Map(value=value):
            return value
        case t.Anything():
            return type
        case t.Object(fields=fields):
            return next((place.type for place in fields if place.key == key), None)
        case _:
            return None


def openings(type: t.Type, types: Mapping[str, t.Type]) -> list[bytes]:
    """A few of the texts up to the first string of a value. Each type is entered once, so the search is short."""
    found: dict[bytes, None] = {}
    waiting: deque[tuple[bytes, t.Type]] = deque([(b"", type)])
    met: set[int] = set()
    while waiting and len(found) < _FIRST:
        before, here = waiting.popleft()
        for arm in arms_of(here, types):
            if id(arm) in met:
                continue
            met.add(id(arm))
            match arm:
                case t.Array(item=item) | t.Tuple(items=(item, *_)):
                    waiting.append((before + b"[", item))
                case t.Object(fields=(place, *_)):
                    waiting.append((before + b"{" + write_json(place.key).encode() + b": ", place.type))
                case t.Anything():
                    found[before + b'"'] = None
                case _ if may_be_text(arm) and not isinstance(arm, t.Literal | t.Schema):
                    found[before + b'"'] = None
    return list(found)[:_FIRST]


# ── holes in the same position ─────────────────────────────────────────────────────────────────────────────


class SharedMasks:
    """Caches the masks of one guide, so that holes in equivalent positions share them."""

    def __init__(self, type: t.Type, types: Mapping[str, t.Type]) -> None:
        self._type = type
        self._types = types
        self._masks: BoundedCache[bytes, TokenMask] = BoundedCache(_MAX_KEPT)

    def mask(self, prefix: JsonPrefix, ask: Callable[[KeepMask], TokenMask]) -> TokenMask:
        """The mask of the prefix. `ask` computes it and passes it to its argument if it may be cached."""
        key = number_key(self._type, self._types, prefix)
        if key is None:
            if len(prefix.raw) > _SHORT:
                return ask(lambda mask: None)
            key = prefix.raw  # many holes begin with the same text
        found = self._masks.get(key)
        if found is not None:
            return found

        def keep(mask: TokenMask) -> None:
            self._masks[key] = mask

        return ask(keep)


def number_key(type: t.Type, types: Mapping[str, t.Type], prefix: JsonPrefix) -> bytes | None:
    """A key for equal masks inside a number of any value; None if there is no such number."""
    if prefix.word is None or prefix.digits_left() is not None:
        return None
    kind = next((kind for kind, begun in _NUMBERS if begun.fullmatch(prefix.raw, prefix.word)), None)
    arms = [] if kind is None else arms_of(type_at(type, types, prefix), types)
    if kind is None or not arms or not all(isinstance(arm, t.Anything) for arm in arms):
        return None
    return shape(prefix.raw[: prefix.word]) + kind
