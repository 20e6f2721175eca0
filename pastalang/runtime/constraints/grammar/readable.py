"""JSON Schemas as llguidance reads them: its formats, its numbers, its strings."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from math import inf, isfinite, nextafter

from pastalang.program.regex import (
    Chars,
    Choice,
    Node,
    RegexError,
    Repetition,
    Sequence,
    complement,
    parse_regex,
    spell,
)
from pastalang.values.json import JsonValue
from pastalang.values.patterns import FORMATS, STANDARD_FORMATS, whole_pattern
from pastalang.values.schema.alternatives import with_parts
from pastalang.values.to_schema import Document

# The formats of JSON Schema for which llguidance has an expression of its own.
_KNOWN_FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}
)
# llguidance stores bounds as doubles, and integers in 63 bits.
_EXACT = 2**53
_LARGEST = 2**63 - 1_024
_SIGNS = {"minimum": -1, "exclusiveMinimum": -1, "maximum": 1, "exclusiveMaximum": 1}


def readable(schema: Document) -> Document:
    """The schema as llguidance supports it. Formats that JSON Schema does not define are dropped, as in validators."""
    format = schema.get("format")
    if isinstance(format, str) and format not in _KNOWN_FORMATS:
        schema = {keyword: part for keyword, part in schema.items() if keyword != "format"}
        if format in STANDARD_FORMATS:
            schema = with_parts(schema, [{"pattern": f"^(?:{FORMATS[format].pattern})$"}])
    return clamp_bounds(_with_safe_patterns(schema))


def clamp_bounds(schema: Document) -> Document:
    """Round large bounds to numbers that llguidance can represent, always inwards, so that no value is added."""
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


def _with_safe_patterns(schema: Document) -> Document:
    found = dict(schema)
    if isinstance(pattern := schema.get("pattern"), str):
        found["pattern"] = _safe_pattern(pattern)
    if isinstance(named := schema.get("patternProperties"), dict):
        found["patternProperties"] = {_safe_pattern(pattern): part for pattern, part in named.items()}
    return found


@lru_cache(maxsize=1024)
def _safe_pattern(pattern: str) -> str:
    """A class with all control characters but without quotes or backslashes would take them escaped: it loses NUL."""
    try:
        node = parse_regex(whole_pattern(pattern))
    except RegexError:
        return pattern
    safe = _without_nul(node)
    return pattern if safe == node else f"^(?:{spell(safe)})$"


def _without_nul(node: Node) -> Node:
    match node:
        case Chars(ranges):
            takes_escaped = all(any(low <= code <= high for low, high in ranges) for code in b'"\\')
            return node if takes_escaped else Chars(complement((*complement(ranges), (0, 0))))
        case Sequence(items):
            return Sequence(tuple(map(_without_nul, items)))
        case Choice(arms):
            return Choice(tuple(map(_without_nul, arms)))
        case Repetition(item, minimum, maximum):
            return Repetition(_without_nul(item), minimum, maximum)
