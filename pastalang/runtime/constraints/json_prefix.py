"""An incremental reader of JSON: open objects and arrays, keys so far, and whether the value is complete or invalid.

It checks what a grammar cannot: duplicate keys, items that must differ, depth, and numbers that readers do not accept.

The type gives the places of arrays whose items differ: see `values.unique_places`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from pastalang import limits
from pastalang.values.json import NotJson, parse_json, same_json, write_json
from pastalang.values.one_hole import NOWHERE, JsonPath, UniquePlaces

_MAX_DEPTH = limits.MAX_JSON_NESTING - 4
_MAX_NUMBER = 60
_QUOTE_OR_ESCAPE = re.compile(rb'["\\\\]')
_EXACT_DIGITS = 15  # decimal digits that a double keeps
_WHOLE_DIGITS, _EXPONENT_DIGITS = 30, 2  # far below the largest double
_FEW_DIGITS = 14  # after so few digits no token makes the number too long
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BEGUN = re.compile(rb"-?(?:0|[1-9][0-9]*)?(?:(?<=[0-9])\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?|[a-z]+")


@dataclass(frozen=True, slots=True)
class _Open:
    """An open object or array; `taken` are its keys, or the items of an array whose items differ."""

    is_object: bool
    taken: tuple[str, ...] = ()
    wants_key: bool = False
    since: int = 0  # where its latest item begins
    begun: int = 0  # where its first one begins


_Stack: TypeAlias = tuple[_Open, ...]


@dataclass(frozen=True, slots=True)
class JsonPrefix:
    """The beginning of a JSON text. `end` is set when the value is complete: the first `end` bytes are the value."""

    unique: UniquePlaces = NOWHERE  # the arrays whose items differ
    raw: bytes = b""
    stack: _Stack = ()
    string: int | None = None  # the start of the open string
    escaped: bool = False
    word: int | None = None  # the start of the open number or word
    end: int | None = None
    is_invalid: bool = False

    @property
    def depth(self) -> int:
        return len(self.stack)

    @property
    def in_string(self) -> bool:
        return self.string is not None

    @property
    def is_scalar(self) -> bool:
        """Whether the value is a number or a word, complete or not."""
        return not self.stack and self.word is not None

    def extended(self, piece: bytes) -> JsonPrefix:
        here, at = self, 0
        while at < len(piece) and not here.is_invalid:
            plain = here._plain(piece, at)
            if plain > at:
                here, at = replace(here, raw=here.raw + piece[at:plain]), plain
            else:
                here, at = here._step(piece[at]), at + 1
        return here if at == len(piece) else replace(here, raw=self.raw + piece)

    def _plain(self, piece: bytes, at: int) -> int:
        """The end of the bytes that only continue the open string."""
        if self.string is None or self.escaped or self.end is not None:
            return at
        found = _QUOTE_OR_ESCAPE.search(piece, at)
        return len(piece) if found is None else found.start()

    def closed_word(self) -> JsonPrefix:
        """The prefix if the open number or word ends here."""
        return self._end_word() if self.word is not None else self

    def open_key(self) -> tuple[bytes, tuple[str, ...]] | None:
        """The key that is open, so far, and the keys that the object already has."""
        if self.string is None or not self.stack or not self.stack[-1].wants_key:
            return None
        return self.raw[self.string + 1 :], self.stack[-1].taken

    def digits_left(self) -> int | None:
        """The number of digits that the open part of a number may still get; None if that is many."""
        if self.word is None or self.raw[self.word : self.word + 1].isalpha():
            return None
        word = self.raw[self.word :].lower()
        if b"e" in word:
            counted = len(word.partition(b"e")[2].lstrip(b"+-"))
            return max(_EXPONENT_DIGITS - counted, 0 if counted else 1)
        if b"." not in word:
            counted = len(word.lstrip(b"-"))
            return max(_WHOLE_DIGITS - counted, 0) if counted > _FEW_DIGITS and word[-1:].isdigit() else None
        counted = len(word.lstrip(b"-0.").replace(b".", b""))
        return max(_EXACT_DIGITS - counted, 1 if word.endswith(b".") else 0)

    def _step(self, byte: int) -> JsonPrefix:
        raw = self.raw + bytes((byte,))
        if self.end is not None:
            return replace(self, raw=raw)
        if self.string is not None:
            return self._in_string(byte, raw)
        here = self
        if self.word is not None:
            if _continues_word(self.raw[self.word :], byte):
                return replace(self, raw=raw, is_invalid=len(raw) - self.word > _MAX_NUMBER)
            here = self._end_word()
            if here.end is not None or here.is_invalid:
                return replace(here, raw=raw)
        return here._structure(byte, raw)

    def _in_string(self, byte: int, raw: bytes) -> JsonPrefix:
        if self.escaped:
            return replace(self, raw=raw, escaped=False)
        if byte == 0x5C:
            return replace(self, raw=raw, escaped=True)
        if byte != 0x22:
            return replace(self, raw=raw)
        assert self.string is not None
        ended = replace(self, raw=raw, string=None)
        if not self.stack:
            return replace(ended, end=len(raw))
        top = self.stack[-1]
        if not (top.is_object and top.wants_key):
            return ended
        key = _text_of(raw[self.string :])
        if key is None or key in top.taken:
            return replace(ended, is_invalid=True)
        return replace(ended, stack=(*self.stack[:-1], replace(top, taken=(*top.taken, key), wants_key=False)))

    def _end_word(self) -> JsonPrefix:
        assert self.word is not None
        text = self.raw[self.word :]
        if self.stack:
            return replace(self, word=None, is_invalid=not _is_sound(text))
        text = text[: _whole_length(text)]  # `12.` before a full stop is 12
        return replace(self, word=None, is_invalid=not _is_sound(text), end=self.word + len(text))

    def _structure(self, byte: int, raw: bytes) -> JsonPrefix:
        match byte:
            case 0x22:
                return replace(self, raw=raw, string=len(raw) - 1)
            case 0x7B | 0x5B:
                stack = (*self.stack, _Open(byte == 0x7B, wants_key=byte == 0x7B, since=len(raw), begun=len(raw)))
                return replace(self, raw=raw, stack=stack, is_invalid=len(stack) > _MAX_DEPTH)
            case 0x7D | 0x5D:
                return self._item_ended(raw)._closed()
            case 0x2C:
                return self._item_ended(raw)._next()
            case 0x20 | 0x0A | 0x0D | 0x09 | 0x3A:
                return replace(self, raw=raw)
            case _:
                return replace(self, raw=raw, word=len(raw) - 1)

    def _item_ended(self, raw: bytes) -> JsonPrefix:
        """Compare an item with those before it when it ends, if the items must differ."""
        here = replace(self, raw=raw)
        top = self.stack[-1]
        if not self.unique or top.is_object or not self.unique.must_differ(self._path()):
            return here
        item = _canonical(raw[top.since : -1])
        if item is None:
            return here
        if any(same_json(parse_json(item), parse_json(other)) for other in top.taken):
            return replace(here, is_invalid=True)
        return replace(here, stack=(*self.stack[:-1], replace(top, taken=(*top.taken, item), since=len(raw))))

    def _path(self) -> JsonPath:
        """The path of the innermost array or object."""
        return tuple(around.taken[-1] if around.is_object else None for around in self.stack[:-1])

    def _closed(self) -> JsonPrefix:
        stack = self.stack[:-1]
        return replace(self, stack=stack, end=len(self.raw) if not stack else None)

    def _next(self) -> JsonPrefix:
        top = self.stack[-1]
        return replace(self, stack=(*self.stack[:-1], replace(top, wants_key=top.is_object)))


def _text_of(quoted: bytes) -> str | None:
    try:
        text = json.loads(quoted)
    except ValueError:
        return None
    return text if isinstance(text, str) else None


def _canonical(item: bytes) -> str | None:
    """The item in one spelling; None if there is none, as in an empty array."""
    try:
        return write_json(parse_json(item.decode("utf-8").strip(" ,")))
    except (NotJson, UnicodeDecodeError):
        return None


def _continues_word(word: bytes, byte: int) -> bool:
    """Whether the byte continues the number or word."""
    return _BEGUN.fullmatch(word + bytes((byte,))) is not None


def _whole_length(word: bytes) -> int:
    """The length of the complete number or word at the start."""
    found = _NUMBER.match(word)
    return found.end() if found is not None else len(word)


def _is_sound(word: bytes) -> bool:
    """Whether every JSON reader accepts the number; words are always accepted."""
    if word[:1] not in b"-0123456789":
        return True
    try:
        value = float(word)
    except ValueError:
        return True  # not a number: the grammar decides
    return _is_read(word) and abs(value) != float("inf")


def _is_read(word: bytes) -> bool:
    """Whether `parse_json`, which limits exponents, accepts the number; True for an incomplete number."""
    try:
        parse_json(word.decode())
    except NotJson:
        return _NUMBER.fullmatch(word) is None
    return True
