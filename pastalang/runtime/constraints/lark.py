"""The grammar of a nested type in llguidance's dialect of Lark: JSON with `, ` and `: ` and no other white space.

Values inside a structure have the same spellings as values of their own holes: numbers, for example, are written as
the rules of the same automaton. Schemas, and numbers with too many states, become JSON Schema inside the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from math import inf, isfinite, nextafter
from types import MappingProxyType
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.program.regex import (
    Chars,
    Choice,
    Node,
    Ranges,
    RegexError,
    Repetition,
    Sequence,
    characters,
    complement,
    count_states,
    normalised,
    parse_regex,
)
from pastalang.program.regex import spell as spell_regex
from pastalang.runtime.constraints.automata import NumberAutomaton, RegexAutomaton, in_quotes
from pastalang.runtime.constraints.automaton_machine import DEAD, MAX_STATES, States, number_states
from pastalang.runtime.constraints.guide import GuideError
from pastalang.values.json import JsonValue, parse_json, spell, write_json
from pastalang.values.patterns import FORMATS, STANDARD_FORMATS, anchored, patterns_of, whole_pattern
from pastalang.values.quotes import BORDER, can_quote, parts_of
from pastalang.values.schema.guard import find_unsafe
from pastalang.values.schema.keywords import map_schemas
from pastalang.values.schema.split import split_text, with_parts
from pastalang.values.to_schema import Document, schema_of

_OPTIONS: Document = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_INTEGER = "/0|-?[1-9][0-9]{0,18}/"
_NUMBER = r"/(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?|-([1-9][0-9]{0,14}(\.[0-9]{1,15})?|0\.[0-9]{0,14}[1-9])/"
_HEX = "[0-9a-fA-F]"
_CHARACTER = (
    r"[^\"\\\x00-\x1f]|\\[\"\\\/bfnrt]|\\u([0-9a-cA-CefEF]" + _HEX + r"{3}|[dD][0-7]" + _HEX + r"{2}"
    r"|[dD][89abAB]" + _HEX + r"{2}\\u[dD][c-fC-F]" + _HEX + r"{2})"
)
_MAX_TAIL = 16
# The text between the quotes of a JSON string that neither begins nor ends with white space.
_INK = r'(?:[^\\\s]|\\["\\b]|\\u[0-9a-f]{4})'
_TRIMMED = rf"{_INK}((?:[^\\]|\\[^u]|\\u[0-9a-f]{{4}})*{_INK})?"
NO_SOURCES: Mapping[str, str] = MappingProxyType({})
ANY_NUMBER = r"-?(0|[1-9][0-9]{0,29})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?"  # every JSON reader accepts these
_MAX_STRINGS = 64
_MANY_STATES = 4_000  # takes a third of a second in a grammar; llguidance itself cannot enforce most of these steps
_ANYTHING = ""  # the empty string is not the name of a type
_NOTHING = r"[^\x{0}-\x{10FFFF}]"


@dataclass(frozen=True)
class Grammar:
    """`text` is in llguidance's dialect of Lark. `strings` are the patterns of its strings, including their quotes, and
    the numbers that are JSON Schema in it."""

    text: str
    strings: tuple[RegexAutomaton | NumberAutomaton, ...] = ()


def grammar_of(
    type: t.Type, types: Mapping[str, t.Type], *, follow: str, sources: Mapping[str, str] = NO_SOURCES
) -> Grammar:
    """The grammar of the value and, optionally, the beginning of `follow`, so that tokens may cross the seam."""
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
    strings: dict[str, RegexAutomaton] = field(default_factory=dict)
    numbers: list[NumberAutomaton] = field(default_factory=list)

    def rule(self, type: t.Type) -> str:
        """The name of a rule for the type. A named type has one rule, so it may be recursive."""
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
        if isinstance(type, t.String) and not patterns_of(type):
            return self.string(type)
        if isinstance(type, t.Patterned):
            return self.matching(type)
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
            case t.Verbatim():
                return self.verbatim(type)
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
        """Any JSON. Its strings have the spellings of free strings."""
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
        if not is_written_out(type):
            self.numbers.append(NumberAutomaton(type))
            return self.schema(schema_of(type))
        self.lines.extend(_terminals(number_states(type), name))
        return f"{name}_0"

    def string(self, type: t.String) -> str:
        """A free string, with the spellings of a string hole."""
        name = f"STRING_{len(self.lines)}"
        self.lines.append(f"{name}: {_free_expression(type)}")
        return name

    def matching(self, type: t.Patterned) -> str:
        """A string with patterns, with the spellings of a string hole; llguidance refuses patterns without a match."""
        patterns = patterns_of(type)
        document = schema_of(type)
        automata = {anchored(pattern): _string(anchored(pattern)) for pattern in patterns}
        if not all(automata.values()):
            return self.schema({key: part for key, part in document.items() if key != "format"})
        self.strings.update({pattern: found for pattern, found in automata.items() if found is not None})
        parts = [f'/"(?:{_json_expression(parse_regex(pattern))})"/' for pattern in patterns]
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

    def verbatim(self, type: t.Verbatim) -> str:
        text = self.sources.get(type.source)
        if text is None:
            raise GuideError(f"the text of `{type.source}` is needed to quote from it")
        whole = _TRIMMED if type.at is t.QuoteUnit.WORDS else "(?s:.+)"
        texts = [part for part in text.split(BORDER) if can_quote(part, type.at)] or [""]
        names = [self.span(part, type.at) for part in texts]
        quoted = f"QUOTED_{names[-1]}"
        self.lines.append(f'{quoted}: "\\"" (({" | ".join(names)}) & /{whole}/) "\\""')
        return quoted

    def span(self, text: str, at: t.QuoteUnit) -> str:
        chunks = [json.dumps(part, ensure_ascii=False)[1:-1] for part in parts_of(text, at)]
        name = f"SPAN_{len(self.lines)}"
        self.lines.append(f"{name}: %regex {json.dumps({'substring_chunks': chunks})}")
        return name

    def schema(self, document: Document) -> str:
        for pattern in _patterns(document):
            if len(self.strings) < _MAX_STRINGS and (automaton := _string(pattern)) is not None:
                self.strings[pattern] = automaton
        found = map_schemas(document, readable)
        assert isinstance(found, dict)
        return f"%json {write_json({**found, 'x-guidance': _OPTIONS})}"

    def document(self, text: str) -> str:
        document = parse_json(text)
        if document is True:
            return self.schema({})
        if not isinstance(document, dict):
            raise GuideError("the schema takes no value")
        if (problem := find_unsafe(document)) is not None:
            pointer, reason = problem
            raise GuideError(f"the schema cannot be enforced at `{pointer or '/'}`: {reason}")
        enforced = split_text(text).enforced
        assert isinstance(enforced, dict)
        return self.schema(enforced)


def _patterns(document: JsonValue) -> Iterator[str]:
    """All patterns of the document and of its formats. Patterns outside of schemas may be among them: harmless."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            pattern = part.get("pattern")
            if isinstance(pattern, str):
                yield pattern
            format_ = part.get("format")
            if isinstance(format_, str) and format_ in FORMATS:
                yield anchored(FORMATS[format_].pattern)
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


@lru_cache(maxsize=1024)
def _string(pattern: str) -> RegexAutomaton | None:
    """The automaton of matches in quotes; None if there are none, or the pattern is not supported."""
    try:
        automaton = RegexAutomaton(parse_regex(whole_pattern(pattern)), quoted=True)
    except RegexError:
        return None
    return None if automaton.is_empty else automaton


def _free_expression(type: t.String) -> str:
    """Any characters, within the limits of length."""
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


def is_written_out(type: t.Integer | t.Number) -> bool:
    """Whether a number has few states. There may be more if its step is not a whole number."""
    step = type.multiple_of
    return number_states(type).explore(MAX_STATES if step is None or step == int(step) else _MANY_STATES)


def _terminals(states: States, name: str) -> Iterator[str]:
    """One terminal for each state with transitions; it is optional if a value may end in the state."""
    for state in range(len(states)):
        row = states.row(state)
        ways = " | ".join(_way(states, row, int(target), name) for target in np.unique(row[row != DEAD]))
        if ways:
            yield f"{_named(name, state)}: {f'({ways})?' if states.accepting[state] else ways}"


def _way(states: States, row: NDArray[np.int32], target: int, name: str) -> str:
    letters = "".join(f"\\x{byte:02x}" for byte in np.flatnonzero(row == target))
    return f"/[{letters}]/" + (f" {_named(name, target)}" if states.next_bytes(target) else "")


def _named(name: str, state: int) -> str:
    return f"{name}_{state}"


def is_small(type: t.Type) -> bool:
    """Whether the type has patterns whose automaton is likely to fit into a table."""
    patterns = patterns_of(type)
    try:
        return 0 < sum(count_states(parse_regex(pattern)) for pattern in patterns) <= MAX_STATES
    except RegexError:
        return False


def _json_expression(node: Node) -> str:
    """The regular expression of the text between the quotes, in llguidance's syntax; it contains no slash."""
    match node:
        case Chars(ranges):
            escapes, plain = in_quotes(ranges)
            class_ = "".join(rf"\x{{{low:X}}}-\x{{{high:X}}}" for low, high in plain)
            ways = [text.decode().replace("\\", "\\\\") for text in escapes] + ([f"[{class_}]"] if class_ else [])
            return f"(?:{'|'.join(ways)})" if len(ways) > 1 else "".join(ways) or _NOTHING
        case Sequence(items):
            return "".join(map(_json_expression, items))
        case Choice(arms):
            return f"(?:{'|'.join(map(_json_expression, arms))})"
        case Repetition(item, minimum, maximum):
            return f"(?:{_json_expression(item)}){{{minimum},{'' if maximum is None else maximum}}}"


# ── JSON Schemas as llguidance reads them ────────────────────────────────────────────────────────────────


# llguidance stores bounds as doubles, and integers in 63 bits.
_LARGEST = 2**63 - 1_024
_HALVES = 2**52  # the doubles below have halves between whole numbers
_SMALLEST = 1e-30  # stands for the number next to 0
_SIGNS = {"minimum": -1, "exclusiveMinimum": -1, "maximum": 1, "exclusiveMaximum": 1}


def readable(schema: Document) -> Document:
    """The schema as llguidance supports it. Formats are those of PastaLang, for which it has expressions of its own;
    those that JSON Schema does not define are dropped, as in validators."""
    found = {keyword: _nearer(keyword, part) for keyword, part in schema.items()}
    parts: list[JsonValue] = [
        {"anyOf": [{keyword: found.pop(keyword)}, {"enum": [*begun]}]}
        for keyword, sign in _SIGNS.items()
        if (begun := _beginnings(found.get(keyword), sign))
    ]
    if isinstance(pattern := schema.get("pattern"), str):
        found["pattern"] = _alike(pattern)
    if isinstance(named := schema.get("patternProperties"), dict):
        found["patternProperties"] = {_alike(pattern): part for pattern, part in named.items()}
    format = found.pop("format", None)
    if isinstance(format, str) and format in STANDARD_FORMATS:
        parts.append({"pattern": _alike(anchored(FORMATS[format].pattern))})
    return with_parts(found, parts) if parts else found


def _beginnings(bound: JsonValue, sign: int) -> list[Decimal]:
    """The numbers whose digits the bound begins with: llguidance takes no 2.2 where numbers end at 2.25."""
    if not isinstance(bound, Decimal) or bound * sign <= 0:
        return []
    text = f"{bound:f}"
    return [Decimal(text[:end]) for end in range(text.index(".") + 2, len(text)) if text[end - 1] != "0"]


def _nearer(keyword: str, bound: JsonValue) -> JsonValue:
    """A bound that llguidance keeps exactly: the nearest double, or the next one inwards, so that no value is added.

    If the other bound is less than 1 away, llguidance takes the excluded whole number next to 0, but never a fraction.
    """
    sign = _SIGNS.get(keyword)
    if sign is None or isinstance(bound, bool) or not isinstance(bound, int | Decimal):
        return bound
    nearest = float(Decimal(sign * min(bound * sign, _LARGEST)))
    if not isfinite(nearest):
        return bound
    read = [Decimal(repr(nearest)), *([Decimal(nearest)] if nearest.is_integer() else [])]
    is_taken = keyword.startswith("exclusive") and nearest.is_integer() and -_HALVES < sign * nearest <= 0
    if is_taken or any((one - bound) * sign > 0 for one in read):
        nearest = nextafter(nearest, -sign * inf) if nearest else -sign * _SMALLEST
    return int(nearest) if nearest.is_integer() else Decimal(repr(nearest))


@lru_cache(maxsize=1024)
def _alike(pattern: str) -> str:
    """The pattern spelled so that llguidance reads it as it is read here.

    Classes that have all control characters together, but no quotes or backslashes, would take these escaped: they
    lose a character.
    """
    try:
        node = parse_regex(whole_pattern(pattern))
    except RegexError:
        return pattern
    classes = [ranges for ranges in characters(node) if not _takes_escaped(ranges)]
    controls = normalised([one for ranges in classes for one in ranges])[:1]
    if controls and controls[0][0] == 0 and controls[0][1] >= 0x1F:
        lost = next((code for code in range(0x20) if ((code, code),) not in classes), 0)
        node = _without(node, lost)
    return anchored(spell_regex(node))


def _takes_escaped(ranges: Ranges) -> bool:
    return all(any(low <= code <= high for low, high in ranges) for code in b'"\\')


def _without(node: Node, code: int) -> Node:
    """The expression without a character in classes that do not take both quotes and backslashes."""
    match node:
        case Chars(ranges):
            return node if _takes_escaped(ranges) else Chars(complement((*complement(ranges), (code, code))))
        case Sequence(items):
            return Sequence(tuple(_without(item, code) for item in items))
        case Choice(arms):
            return Choice(tuple(_without(arm, code) for arm in arms))
        case Repetition(item, minimum, maximum):
            return Repetition(_without(item, code), minimum, maximum)
