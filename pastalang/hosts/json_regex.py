"""The JSON of a type as a regular expression, as the model in this process writes it: `, ` and `: `, no other space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pastalang.program import regex
from pastalang.program import types as t
from pastalang.program.regex import Chars, Choice, Node, Repetition, parse_regex, spell_class
from pastalang.values.json import spell
from pastalang.values.lengths import closed_texts, is_finite
from pastalang.values.patterns import patterns_of

INTEGER: Final = r"-?(?:0|[1-9][0-9]*)"
NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
_CHARACTER: Final = r'(?:[^"\\\x00-\x1f\x7f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))'
_ESCAPED: Final = (*range(0x20), ord('"'), ord("\\"), 0x7F)
_MANY: Final = 128  # values of a type that are spelled apart
_LONGEST: Final = 8_000  # characters of an expression


def json_regex(type: t.Type, types: Mapping[str, t.Type]) -> str | None:
    """None for a type that no expression says exactly or briefly: recursive ones, maps, numbers with bounds."""
    found = _Spelling(types).of(type, ())
    return found if found is not None and len(found) <= _LONGEST else None


def exactly(text: str) -> str:
    """The expression that matches this text alone."""
    return "".join(spell_class(((ord(character), ord(character)),)) for character in text)


class _Spelling:
    def __init__(self, types: Mapping[str, t.Type]) -> None:
        self._types = types

    def of(self, type: t.Type, around: tuple[str, ...]) -> str | None:
        """`around` are the names that are being spelled."""
        if isinstance(type, t.Named):
            return None if type.name in around else self.of(self._types[type.name], (*around, type.name))
        if isinstance(type, t.Object):
            return self._object(type.fields, around)
        if isinstance(type, t.Array) and not type.unique:
            item = self.of(type.item, around)
            return None if item is None else rf"\[{_listed(item, type.min_items, type.max_items)}\]"
        if isinstance(type, t.Union):
            arms = self._all(type.arms, around)
            return None if arms is None else f"(?:{'|'.join(arms)})"
        if isinstance(type, t.Tuple):
            items = self._all(type.items, around)
            return None if items is None else rf"\[{', '.join(items)}\]"
        return self._scalar(type)

    def _all(self, parts: tuple[t.Type, ...], around: tuple[str, ...]) -> list[str] | None:
        found = [self.of(part, around) for part in parts]
        spelled = [one for one in found if one is not None]
        return spelled if len(spelled) == len(found) else None

    def _object(self, fields: tuple[t.Field, ...], around: tuple[str, ...]) -> str | None:
        if any(one.default is not None for one in fields):
            return None
        values = self._all(tuple(one.type for one in fields), around)
        if values is None:
            return None
        pairs = zip(fields, values, strict=True)
        return rf"\{{{', '.join(f'{exactly(spell(one.key, quoted=True))}: {value}' for one, value in pairs)}\}}"

    def _scalar(self, type: t.Type) -> str | None:
        if is_finite(type, self._types):
            texts = closed_texts(type, self._types, quoted=True)
            return f"(?:{'|'.join(map(exactly, texts))})" if 0 < len(texts) <= _MANY else None
        if patterns := patterns_of(type):
            is_plain = len(patterns) == 1 and _is_plain(parse_regex(patterns[0]))
            return f'"(?:{patterns[0]})"' if is_plain else None
        if isinstance(type, t.String):
            return f'"{_CHARACTER}{_times(type.min_chars, type.max_chars)}"'
        if isinstance(type, t.Integer):
            return _integer(type)
        return NUMBER if type == t.Number(max_tokens=getattr(type, "max_tokens", None)) else None


def _integer(type: t.Integer) -> str | None:
    """Any integer, or one of few."""
    if type == t.Integer(max_tokens=type.max_tokens):
        return INTEGER
    if type.minimum is None or type.maximum is None or type.maximum - type.minimum >= _MANY:
        return None
    if type != t.Integer(type.minimum, type.maximum, max_tokens=type.max_tokens):
        return None
    return f"(?:{'|'.join(map(str, range(type.minimum, type.maximum + 1)))})"


def _listed(item: str, least: int, most: int | None) -> str:
    if most == 0:
        return ""
    more = f"{item}(?:, {item}){_times(max(0, least - 1), None if most is None else most - 1)}"
    return more if least else f"(?:{more})?"


def _times(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _is_plain(node: Node) -> bool:
    """True if JSON writes every text that matches without an escape."""
    match node:
        case Chars(ranges=ranges):
            return not any(low <= one <= high for one in _ESCAPED for low, high in ranges)
        case regex.Sequence(items=parts) | Choice(arms=parts):
            return all(map(_is_plain, parts))
        case Repetition(item=item):
            return _is_plain(item)
