"""What a server is asked to keep a value to, made of the same types that the local engine enforces.

A server's grammar is never trusted: every answer is checked against its type. So a constraint may be wider than the
type (bounds of a number in running text, a quotation of a source), and what it lets through is asked for again. Where
a server takes no schema, JSON is a regular expression: as the model in this process writes it, with `, ` and `: ` and
no other space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pastalang.plan.branches import Form, Hole
from pastalang.program import regex
from pastalang.program import types as t
from pastalang.program.regex import Chars, Choice, Node, RegexError, Repetition, parse_regex, spell_class
from pastalang.program.visit import arms_of
from pastalang.values.json import spell
from pastalang.values.lengths import closed_texts, is_finite
from pastalang.values.patterns import patterns_of
from pastalang.values.to_schema import schema_text

_LINE_END: Final = ("\n",)
_ANYTHING: Final = r"(?:.|\n)*"


@dataclass(frozen=True, slots=True)
class Schema:
    """JSON that fits a schema."""

    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression that matches the whole text."""

    regex: str


@dataclass(frozen=True, slots=True)
class Options:
    """One of these texts; with `may_end`, the model may end its turn instead."""

    texts: tuple[str, ...]
    may_end: bool = False


@dataclass(frozen=True, slots=True)
class Free:
    """Any text, or what matches the pattern, up to the first of these texts or to where the model ends its turn."""

    stop: tuple[str, ...]
    pattern: str | None = None


Constraint: TypeAlias = Schema | Pattern | Options | Free


def constraint_of(hole: Hole, types: Mapping[str, t.Type]) -> Constraint:
    """The narrowest constraint that servers understand for the text of a hole."""
    type, quoted = hole.type, hole.form is Form.JSON
    arms = arms_of(type, types)
    if arms and all(isinstance(arm, t.Literal | t.Boolean | t.Null) for arm in arms):
        return Options(tuple(dict.fromkeys(closed_texts(type, types, quoted=quoted))))
    if quoted:
        return Schema(schema_text(type, types))
    patterns = [pattern for arm in arms if (pattern := _pattern_in_text(arm, types)) is not None]
    if len(patterns) == len(arms):
        found = _pattern(patterns[0] if len(arms) == 1 else "|".join(f"(?:{pattern})" for pattern in patterns))
        if found is not None:
            return found
    if len(arms) > 1 or isinstance(type, t.String | t.Verbatim):
        stop = (isinstance(type, t.String) and type.stop) or _LINE_END
        return Free(stop, None if may_be_empty(hole) else some_text("", stop))
    return Schema(schema_text(type, types))


def spaced(constraint: Constraint, space: str, hole: Hole, types: Mapping[str, t.Type]) -> Constraint | None:
    """The constraint of the space and then the value; None if no server understands one."""
    match constraint:
        case Options(texts=texts):
            return Options(tuple(space + text for text in texts))
        case Pattern(regex=matched):
            return _pattern(f"{exactly(space)}(?:{matched})")
        case Free(stop=stop):
            if any(one.startswith(space) for one in stop):
                return None
            return Free(stop, exactly(space) + _ANYTHING if may_be_empty(hole) else some_text(space, stop))
        case Schema():
            pattern = json_regex(hole.type, types)
            return None if pattern is None else _pattern(exactly(space) + pattern)


def _pattern(text: str) -> Pattern | None:
    """None for a pattern that is too large to be read here, and so to be written as a grammar."""
    try:
        parse_regex(text)
    except RegexError:
        return None
    return Pattern(text)


def may_be_empty(hole: Hole) -> bool:
    """Whether a value in running text may be nothing at all: only a string that says so."""
    return isinstance(hole.type, t.String) and (hole.type.may_be_empty or hole.type.max_chars == 0)


def some_text(space: str, stop: Sequence[str]) -> str:
    """The space, and text that neither begins with another one nor ends at once."""
    ends = {ord(one) for one in (*stop, " ", "\t", "\n", "\r") if len(one) == 1}
    inside = "".join(rf"\u{code:04x}" for code in sorted(ends) if code < 0x10000)
    return f"{exactly(space)}[^{inside}]{_ANYTHING}"


def _pattern_in_text(type: t.Type, types: Mapping[str, t.Type]) -> str | None:
    """What a value in running text matches, where strings, dates and their like have no quotes. The last pattern of a
    type is its own, the first one that of its format."""
    if isinstance(type, t.Integer | t.Number):
        return INTEGER if isinstance(type, t.Integer) else NUMBER
    closed = "|".join(map(exactly, closed_texts(type, types, quoted=False)))
    return closed or next(reversed(patterns_of(type)), None)


def lead_constraint(leads: Sequence[str | None]) -> Options:
    """One of several ways to go on; None is the end of the model's turn."""
    return Options(tuple(lead for lead in leads if lead is not None), may_end=None in leads)


def rest_of(constraint: Constraint, text: str) -> Constraint | None:
    """What is left of a constraint behind the beginning of a value; None if that is not known, or nothing is left."""
    match constraint:
        case _ if not text:
            return constraint
        case Options(texts=texts):
            left = tuple(one.removeprefix(text) for one in texts if one.startswith(text) and one != text)
            return Options(left, may_end=text in texts) if left else None
        case Pattern(regex=pattern):
            left_over = regex.after(parse_regex(pattern), text)
            return None if left_over is None or left_over == regex.Sequence(()) else _pattern(regex.spell(left_over))
        case Free(stop=stop):
            return Free(stop)
        case Schema():
            return None


def options_regex(options: Options) -> str:
    """The options for a server that has no constraint of its own for them."""
    return f"({'|'.join(map(exactly, options.texts))})" + "?" * options.may_end


def options_grammar(options: Options) -> str:
    """The options as a grammar of llama.cpp (GBNF)."""
    return f"root ::= ({' | '.join(map(_quoted, options.texts))})" + "?" * options.may_end


def pattern_grammar(pattern: str) -> str:
    """A regular expression as a grammar of llama.cpp (GBNF)."""
    return f"root ::= {_rule(parse_regex(pattern))}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _rule(node: Node) -> str:
    match node:
        case Chars(ranges=ranges):
            inside = "".join(_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in ranges)
            return f"[{inside}]"
        case regex.Sequence(items=items):
            return f"({' '.join(map(_rule, items))})" if items else '""'
        case Choice(arms=arms):
            return f"({' | '.join(map(_rule, arms))})"
        case Repetition(item=item, minimum=minimum, maximum=maximum):
            return f"{_rule(item)}{{{minimum},{'' if maximum is None else maximum}}}"


def _code(character: int) -> str:
    return f"\\x{character:02X}" if character < 0x100 else f"\\U{character:08X}"


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
