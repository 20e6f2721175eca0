"""What a server is asked to keep a value to, made of the same types that the local engine enforces.

A server's grammar is never trusted: every answer is checked against its type. So a constraint may be wider than the
type (bounds of a number in running text, a quotation of a source), and what it lets through is asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pastalang.plan.plan import Form, Hole
from pastalang.program import regex
from pastalang.program import types as t
from pastalang.program.regex import Chars, Choice, Node, Repetition, parse_regex
from pastalang.values.json import spell_json
from pastalang.values.patterns import FORMATS, MOMENTS, UUID
from pastalang.values.to_schema import schema_text

_LINE_END: Final = ("\n",)
_NUMBER: Final = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"
_INTEGER: Final = r"-?(0|[1-9][0-9]*)"


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
    """Any text. It ends before the first of these texts, or where the model ends its turn."""

    stop: tuple[str, ...]


Constraint: TypeAlias = Schema | Pattern | Options | Free


def constraint_of(hole: Hole, types: Mapping[str, t.Type]) -> Constraint:
    """The narrowest constraint that servers understand for the text of a hole."""
    quoted = hole.form is Form.JSON
    options = _options(hole.type, types, quoted=quoted)
    if options is not None:
        return Options(options)
    if quoted:
        return Schema(schema_text(_without_quotations(hole.type, types), dict(types)))
    return _in_text(hole.type, types)


def lead_constraint(leads: Sequence[str | None]) -> Options:
    """One of several ways to go on; None is the end of the model's turn."""
    return Options(tuple(lead for lead in leads if lead is not None), may_end=None in leads)


def options_regex(options: Options) -> str:
    """The options for a server that has no constraint of its own for them."""
    return f"({'|'.join(re.escape(text) for text in options.texts)})" + "?" * options.may_end


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


def _options(type: t.Type, types: Mapping[str, t.Type], *, quoted: bool) -> tuple[str, ...] | None:
    """The spellings of a closed choice; None for other types."""
    match type:
        case t.Literal(value=value):
            return (spell_json(value) if quoted or not isinstance(value, str) else value,)
        case t.Boolean():
            return ("true", "false")
        case t.Null():
            return ("null",)
        case t.Named(name=name):
            return _options(types[name], types, quoted=quoted) if _is_plain(types[name]) else None
        case t.Union(arms=arms):
            found = [_options(arm, types, quoted=quoted) for arm in arms]
            return None if None in found else tuple(text for texts in found if texts for text in texts)
        case _:
            return None


def _is_plain(type: t.Type) -> bool:
    return isinstance(type, t.Literal | t.Boolean | t.Null) or (
        isinstance(type, t.Union) and all(isinstance(arm, t.Literal | t.Null) for arm in type.arms)
    )


def _in_text(type: t.Type, types: Mapping[str, t.Type]) -> Constraint:
    """A value in running text, where strings, dates and their like have no quotes."""
    match type:
        case t.String(pattern=str() as pattern):
            return Pattern(pattern)
        case t.String(format=str() as format):
            return Pattern(FORMATS[format].pattern)
        case t.String(stop=stop):
            return Free(stop or _LINE_END)
        case t.Verbatim():
            return Free(_LINE_END)
        case t.Regex(pattern=pattern):
            return Pattern(pattern)
        case t.Temporal(kind=kind):
            return Pattern(MOMENTS[kind])
        case t.Uuid():
            return Pattern(UUID)
        case t.Integer():
            return Pattern(_INTEGER)
        case t.Number():
            return Pattern(_NUMBER)
        case t.Union():
            return Free(_LINE_END)
        case _:
            return Schema(schema_text(type, dict(types)))


def _without_quotations(type: t.Type, types: Mapping[str, t.Type]) -> t.Type:
    """The type with plain strings in place of quotations of a source, which no schema can express."""
    match type:
        case t.Verbatim():
            return t.String(max_tokens=type.max_tokens)
        case t.Union(arms=arms):
            return t.Union(tuple(_without_quotations(arm, types) for arm in arms))
        case _:
            return type
