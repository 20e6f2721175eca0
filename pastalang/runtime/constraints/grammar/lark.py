"""Writes the grammar of a type that nests, in llguidance's dialect of Lark: JSON with `, ` and `: ` and no other space.

What has one spelling is written out, numbers as the automaton that serves a hole of their own. A value means the same
inside a list as alone. Schemas and numbers of too many states are JSON Schema inside the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from math import inf, isfinite, nextafter
from types import MappingProxyType
from typing import TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.regex_tree import Chars, Choice, Node, Repetition, Sequence, count_states
from pastalang.runtime.constraints.dfa.machines import number_table
from pastalang.runtime.constraints.dfa.number import NumberAutomaton
from pastalang.runtime.constraints.dfa.pattern import PatternAutomaton, in_quotes
from pastalang.runtime.constraints.dfa.table import DEAD, MAX_STATES, Table
from pastalang.runtime.constraints.guide import GuideError
from pastalang.values.formats import FORMATS, MOMENTS, UUID
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.lengths import spell
from pastalang.values.patterns import whole_pattern
from pastalang.values.schema.guard import find_hostile
from pastalang.values.schema.opaque import map_schemas, with_alternatives
from pastalang.values.to_schema import Document, anchored, schema_of

_OPTIONS: Document = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_INTEGER = "/0|-?[1-9][0-9]{0,18}/"
_NUMBER = r"/(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?|-([1-9][0-9]{0,14}(\.[0-9]{1,15})?|0\.[0-9]{0,14}[1-9])/"
_HEX = "[0-9a-fA-F]"
_CHARACTER = (
    r"[^\"\\\x00-\x1f]|\\[\"\\\/bfnrt]|\\u([0-9a-cA-CefEF]" + _HEX + r"{3}|[dD][0-7]" + _HEX + r"{2}"
    r"|[dD][89abAB]" + _HEX + r"{2}\\u[dD][c-fC-F]" + _HEX + r"{2})"
)
_MAX_TAIL = 16
NO_SOURCES: Mapping[str, str] = MappingProxyType({})
ANY_NUMBER = r"-?(0|[1-9][0-9]{0,29})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?"  # those that every reader takes
_MAX_STRINGS = 64
_ANYTHING = ""  # no type has that name


@dataclass(frozen=True)
class Grammar:
    """`text` is in llguidance's dialect of Lark. `strings` are the patterns of strings in it, quotes included, and the
    numbers that are not written out."""

    text: str
    strings: tuple[PatternAutomaton | NumberAutomaton, ...] = ()


def grammar_of(
    type: t.Type, types: Mapping[str, t.Type], *, follow: str, sources: Mapping[str, str] = NO_SOURCES
) -> Grammar:
    """What follows may begin behind the value, so tokens may cross."""
    writer = _Writer(types, sources)
    value = writer.rule(type)
    tails = [json.dumps(follow[: end + 1]) for end in range(min(len(follow), _MAX_TAIL))]
    tail = f" ({' | '.join(tails)})?" if tails else ""
    text = "\n".join([f"start: {value}{tail}", *writer.lines]) + "\n"
    return Grammar(text, (*writer.strings.values(), *writer.numbers))


@dataclass
class _Writer:
    types: Mapping[str, t.Type]
    sources: Mapping[str, str]
    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    strings: dict[str, PatternAutomaton] = field(default_factory=dict)
    numbers: list[NumberAutomaton] = field(default_factory=list)

    def rule(self, type: t.Type) -> str:
        """The name of a rule for the type; named types have one rule each, so they may be recursive."""
        if isinstance(type, t.Named):
            if type.name not in self.names:
                name = self.names[type.name] = f"named_{len(self.names)}"
                self.lines.append(f"{name}: {self.rule(self.types[type.name])}")
            return self.names[type.name]
        name = f"rule_{len(self.lines)}"
        at = len(self.lines)
        self.lines.append("")
        self.lines[at] = f"{name}: {self.body(type)}"
        return name

    def body(self, type: t.Type) -> str:
        match type:
            case t.Boolean():
                return '"true" | "false"'
            case t.Null():
                return '"null"'
            case t.Literal(value=value):
                return json.dumps(spell(value))
            case t.Integer():
                return self.number(type, _INTEGER)
            case t.Number():
                return self.number(type, _NUMBER)
            case t.String(pattern=None, format=None):
                return self.string(type)
            case t.String() | t.Regex() | t.Temporal() | t.Uuid():
                return self.matching(type)
            case t.Verbatim(source=source):
                return self.verbatim(source)
            case t.Array():
                return self.array(type)
            case t.Tuple(items=items):
                return " ".join(['"["', ' ", " '.join(self.rule(item) for item in items), '"]"'])
            case t.Map():
                return self.map(type)
            case t.Object(fields=fields):
                return self.object(fields)
            case t.Union(arms=arms):
                return " | ".join(self.rule(arm) for arm in arms)
            case t.Schema(document=text):
                return self.document(text)
            case t.Anything():
                return self.anything()
            case t.Named():
                return self.rule(type)
            case _:
                assert_never(type)

    def anything(self) -> str:
        """Any JSON, its strings with the spellings of free ones."""
        if _ANYTHING not in self.names:
            self.names[_ANYTHING] = "anything"
            self.lines += [
                'anything: ANY_STRING | ANY_NUMBER | any_array | any_object | "true" | "false" | "null"',
                rf"ANY_NUMBER: /{ANY_NUMBER}/",
                'any_array: "[" (anything (", " anything)*)? "]"',
                'any_object: "{" (any_member (", " any_member)*)? "}"',
                'any_member: ANY_STRING ": " anything',
                f"ANY_STRING: {_free_expression(t.String())}",
            ]
        return "anything"

    def number(self, type: t.Integer | t.Number, free: str) -> str:
        if len(schema_of(type)) == 1:
            return free
        name = f"NUMBER_{len(self.lines)}"
        terminals = number_terminals(type, name)
        if terminals is None:
            self.numbers.append(NumberAutomaton(type))
            return self.schema(number_document(type))
        self.lines.extend(terminals)
        return f"{name}_0"

    def string(self, type: t.String) -> str:
        """With the very spellings that a string of its own has."""
        name = f"STRING_{len(self.lines)}"
        self.lines.append(f"{name}: {_free_expression(type)}")
        return name

    def matching(self, type: Patterned) -> str:
        """With the very spellings too; patterns that nothing matches are the engine's to refuse."""
        patterns = patterns_of(type)
        document = schema_of(type)
        automata = {anchored(pattern): _string(anchored(pattern)) for pattern in patterns}
        if not all(automata.values()):
            return self.schema({key: part for key, part in document.items() if key != "format"})
        self.strings.update({pattern: found for pattern, found in automata.items() if found is not None})
        parts = [f'/"(?:{json_expression(parse_regex(pattern))})"/' for pattern in patterns]
        if isinstance(type, t.String) and (type.min_chars or type.max_chars is not None):
            parts.append(_free_expression(type))
        name = f"STRING_{len(self.lines)}"
        self.lines.append(f"{name}: {' & '.join(parts)}")
        return name

    def array(self, type: t.Array) -> str:
        item = self.rule(type.item)
        return f'"[" {_repeated(item, type.min_items, type.max_items)} "]"'

    def map(self, type: t.Map) -> str:
        pattern = {} if type.key_pattern is None else {"pattern": anchored(type.key_pattern)}
        key = f"rule_{len(self.lines)}"
        self.lines.append(f"{key}: {self.schema({'type': 'string', **pattern})}")
        pair = f"rule_{len(self.lines)}"
        self.lines.append("")
        at = len(self.lines) - 1
        self.lines[at] = f'{pair}: {key} ": " {self.rule(type.value)}'
        return f'"{{" {_repeated(pair, type.min_items, type.max_items)} "}}"'

    def object(self, fields: tuple[t.Field, ...]) -> str:
        if not fields:
            return '"{}"'
        parts = []
        for number, place in enumerate(fields):
            parts.append('", "' if number else '"{"')
            parts += [json.dumps(json.dumps(place.key, ensure_ascii=False)), '": "', self.rule(place.type)]
        return " ".join([*parts, '"}"'])

    def verbatim(self, source: str) -> str:
        text = self.sources.get(source)
        if text is None:
            raise GuideError(f"the text of `{source}` is needed to quote from it")
        chunks = [json.dumps(character, ensure_ascii=False)[1:-1] for character in text]
        name = f"SPAN_{len(self.lines)}"
        self.lines.append(f"{name}: %regex {json.dumps({'substring_chunks': chunks})}")
        self.lines.append(f'QUOTED_{name}: "\\"" ({name} & /(?s:.+)/) "\\""')
        return f"QUOTED_{name}"

    def schema(self, document: Document) -> str:
        for pattern in _patterns(document):
            if len(self.strings) < _MAX_STRINGS and (automaton := _string(pattern)) is not None:
                self.strings[pattern] = automaton
        return f"%json {write_json({**document, 'x-guidance': _OPTIONS})}"

    def document(self, text: str) -> str:
        document = parse_json(text)
        if document is True:
            return self.schema({})
        if not isinstance(document, dict):
            raise GuideError("the schema takes no value")
        if (problem := find_hostile(document)) is not None:
            pointer, reason = problem
            raise GuideError(f"the schema cannot be enforced at `{pointer or '/'}`: {reason}")
        readable = map_schemas(document, lambda schema: _readable(schema, document))
        assert isinstance(readable, dict)
        return self.schema(readable)


def _patterns(document: JsonValue) -> Iterator[str]:
    """Every pattern of the document, and those of its formats; what is no schema at all does no harm here."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            pattern = part.get("pattern")
            if isinstance(pattern, str):
                yield pattern
            format_ = part.get("format")
            if isinstance(format_, str) and format_ in FORMATS:
                yield f"^(?:{FORMATS[format_].pattern})$"
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


@lru_cache(maxsize=1024)
def _string(pattern: str) -> PatternAutomaton | None:
    """The strings that match, with their quotes; None where there are none or the pattern is not understood."""
    try:
        automaton = PatternAutomaton(parse_regex(whole_pattern(pattern)), quoted=True)
    except RegexError:
        return None
    return None if automaton.is_empty else automaton


_STANDARD_FORMATS = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "regex"),
        *("json-pointer", "relative-json-pointer"),
    }
)


def _readable(schema: Document, document: Document) -> Document:
    """In the engine's words. Formats that JSON Schema does not know are remarks of the author: no reader heeds them."""
    format = schema.get("format")
    if isinstance(format, str) and format not in _STANDARD_FORMATS:
        schema = {keyword: part for keyword, part in schema.items() if keyword != "format"}
    return with_alternatives(clamp_bounds(schema), document)


def _free_expression(type: t.String) -> str:
    """Any characters, as many as there may be."""
    most = "" if type.max_chars is None else type.max_chars
    return f'/"({_CHARACTER}){{{type.min_chars},{most}}}"/'


def _repeated(item: str, least: int, most: int | None) -> str:
    if most == 0:
        return ""
    if most == 1:
        return item if least else f"({item})?"
    more = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
    row = f'{item} (", " {item}){more}'
    return row if least else f"({row})?"


# llguidance counts with doubles, and up to 63 bits.
_EXACT = 2**53
_LARGEST = 2**63 - 1_024
_SIGNS = {"minimum": -1, "exclusiveMinimum": -1, "maximum": 1, "exclusiveMaximum": 1}


def number_terminals(type: t.Integer | t.Number, name: str) -> tuple[str, ...] | None:
    """Terminals, the first of which is the number; None where they would be too many: steps of many remainders."""
    table = number_table(type)
    return None if table is None else tuple(_terminals(table, name))


def number_document(type: t.Integer | t.Number) -> Document:
    """The same as a schema, with bounds that llguidance can count with."""
    return clamp_bounds(schema_of(type))


def clamp_bounds(schema: Document) -> Document:
    """Large bounds as llguidance counts, a little closer where it cannot tell them apart: never more is taken."""
    return {key: _nearer(key, value) for key, value in schema.items()}


def _nearer(keyword: str, bound: JsonValue) -> JsonValue:
    sign = _SIGNS.get(keyword)
    if sign is None or isinstance(bound, bool) or not isinstance(bound, int | Decimal):
        return bound
    if -_EXACT <= bound <= _EXACT:
        return bound
    within = float(sign * min(bound * sign, _LARGEST))
    if not isfinite(within):
        return bound
    is_wider = (Decimal(within) - Decimal(bound)) * sign > 0
    return int(nextafter(within, -sign * inf) if is_wider else within)


def _terminals(table: Table, name: str) -> Iterator[str]:
    """One for each state from which anything leads; where a value may end, the rest may be left out."""
    for state in range(table.size):
        row = table.rows[state]
        ways = " | ".join(_way(table, row, int(target), name) for target in np.unique(row[row != DEAD]))
        if ways:
            yield f"{_named(name, state)}: {f'({ways})?' if table.accepting[state] else ways}"


def _way(table: Table, row: NDArray[np.int32], target: int, name: str) -> str:
    letters = "".join(f"\\x{byte:02x}" for byte in np.flatnonzero(row == target))
    return f"/[{letters}]/" + (f" {_named(name, target)}" if table.ways[target] else "")


def _named(name: str, state: int) -> str:
    return f"{name}_{state}"


Patterned: TypeAlias = t.String | t.Regex | t.Temporal | t.Uuid
_NOTHING = r"[^\x{0}-\x{10FFFF}]"


def patterns_of(type: t.Type) -> tuple[str, ...]:
    """What a string has to match, all of them as a whole; nothing where it is free, or no string."""
    match type:
        case t.Regex(pattern=pattern):
            return (pattern,)
        case t.Temporal(kind=kind):
            return (MOMENTS[kind],)
        case t.Uuid():
            return (UUID,)
        case t.String(format=format, pattern=pattern):
            named = () if format is None else (FORMATS[format].pattern,)
            return named if pattern is None else (*named, pattern)
        case _:
            return ()


def is_small(type: t.Type) -> bool:
    """Whether it has patterns whose automaton is likely to be written out."""
    patterns = patterns_of(type)
    try:
        return 0 < sum(count_states(parse_regex(pattern)) for pattern in patterns) <= MAX_STATES
    except RegexError:
        return False


def json_expression(node: Node) -> str:
    """A regular expression in llguidance's words of what stands between the quotes; no slash is in it."""
    match node:
        case Chars(ranges):
            escapes, plain = in_quotes(ranges)
            class_ = "".join(rf"\x{{{low:X}}}-\x{{{high:X}}}" for low, high in plain)
            ways = [text.decode().replace("\\", "\\\\") for text in escapes] + ([f"[{class_}]"] if class_ else [])
            return f"(?:{'|'.join(ways)})" if len(ways) > 1 else "".join(ways) or _NOTHING
        case Sequence(items):
            return "".join(map(json_expression, items))
        case Choice(arms):
            return f"(?:{'|'.join(map(json_expression, arms))})"
        case Repetition(item, minimum, maximum):
            return f"(?:{json_expression(item)}){{{minimum},{'' if maximum is None else maximum}}}"
