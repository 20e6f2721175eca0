"""Converts the keywords of one scalar in a JSON Schema to a hole type, and refuses contradictions by keyword."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Final

from pastalang.program import types as t
from pastalang.values import patterns
from pastalang.values.json import JsonValue, decimal_text
from pastalang.values.lengths import has_numbers
from pastalang.values.patterns import FORMATS, MOMENTS, STANDARD_FORMATS, anchored
from pastalang.values.schema.keywords import ANNOTATIONS, CHECKED_FORMATS, REFUSED_FORMATS


class SchemaRefused(Exception):
    """A keyword that no hole type can express here. `keyword` is the last step of its JSON pointer."""

    def __init__(self, keyword: str, reason: str) -> None:
        self.keyword = keyword
        self.reason = reason
        super().__init__(reason)


class NoValue(SchemaRefused):
    """A schema that accepts no value at all."""


Keywords = Mapping[str, JsonValue]

# Patterns that the export writes for hole types, so that an exported schema is imported unchanged.
_OWN_PATTERNS: Final[Mapping[str, t.Type]] = {
    anchored(MOMENTS[t.Moment.DATETIME]): t.Temporal(t.Moment.DATETIME),
    anchored(MOMENTS[t.Moment.TIME]): t.Temporal(t.Moment.TIME),
} | {anchored(FORMATS[name].pattern): t.String(format=name) for name in FORMATS if name not in STANDARD_FORMATS}


def string_type(schema: Keywords) -> t.Type:
    least, most = length(schema, "minLength") or 0, length(schema, "maxLength")
    if most is not None and least > most:
        raise SchemaRefused("minLength", f"{least} is more than `maxLength` {most}")
    pattern, format = schema.get("pattern"), schema.get("format")
    further = _second_pattern(schema)
    if isinstance(pattern, str) and pattern in _OWN_PATTERNS and format is None:
        found = _OWN_PATTERNS[pattern]
        if isinstance(found, t.String):
            whole = None if further is None else patterns.whole_pattern(further)
            return t.String(min_chars=least, max_chars=most, pattern=whole, format=found.format)
        if (least, most, further) == (0, None, None):
            return found
    name = None if format is None else _format(format)
    if name is not None and pattern == anchored(FORMATS[name].pattern):
        pattern, further = further, None
    if further is not None:
        raise SchemaRefused("allOf", "two patterns of one string cannot be enforced together")
    whole = patterns.whole_pattern(pattern) if isinstance(pattern, str) else None
    if (least, most, whole) == (0, None, None) and name in ("date", "uuid"):
        return t.Temporal(t.Moment.DATE) if name == "date" else t.Uuid()
    return t.String(min_chars=least, max_chars=most, pattern=whole, format=name)


def integer_type(schema: Keywords) -> t.Type:
    low, high, above, below, step = _bounds(schema)
    if step is not None and step != step.to_integral_value():
        raise SchemaRefused("multipleOf", f"an integer cannot be limited to multiples of {decimal_text(step)}")
    found = t.Integer(
        minimum=None if low is None else ceil(Fraction(low)),
        maximum=None if high is None else floor(Fraction(high)),
        exclusive_minimum=None if above is None else floor(Fraction(above)),
        exclusive_maximum=None if below is None else ceil(Fraction(below)),
        multiple_of=None if step is None else int(step),
    )
    if not has_numbers(found):
        raise NoValue(_a_bound(schema), "no integer lies between the bounds")
    return found


def number_type(schema: Keywords) -> t.Type:
    low, high, above, below, step = _bounds(schema)
    found = t.Number(low, high, above, below, step)
    if not has_numbers(found):
        raise NoValue(_a_bound(schema), "no number lies between the bounds")
    return found


def exactly(value: JsonValue) -> t.Type:
    """The type that has only this value."""
    match value:
        case None:
            return t.Null()
        case list():
            return t.Tuple(tuple(map(exactly, value)))
        case dict():
            return t.Object(tuple(t.Field(key, exactly(part)) for key, part in value.items()))
        case Decimal() if value == value.to_integral_value() and abs(value.adjusted()) < 300:
            return t.Literal(int(value))
        case _:
            return t.Literal(value)


def key_pattern(schema: JsonValue) -> str | None:
    """The pattern that `propertyNames` asks of a key; None if it may be any string."""
    if not isinstance(schema, dict) or "const" in schema or "enum" in schema:
        return None if schema is True else _listed_keys(schema)
    used = set(schema) - {"type", *ANNOTATIONS}
    match schema:
        case {"pattern": str(search)} if used == {"pattern"}:
            return patterns.whole_pattern(search)
        case {"format": str(name)} if used == {"format"}:
            known = _format(name)
            return None if known is None else FORMATS[known].pattern
        case _ if used <= {"minLength", "maxLength"}:
            least, most = length(schema, "minLength"), length(schema, "maxLength")
            return None if (least, most) == (None, None) else rf"[\s\S]{{{least or 0},{'' if most is None else most}}}"
        case _:
            raise SchemaRefused("propertyNames", "may hold a pattern, a format, lengths, or the keys themselves")


def _listed_keys(schema: JsonValue) -> str:
    """A pattern of the keys that an enum or a constant lists. Values that are no strings are no keys."""
    listed = schema.get("enum", [schema.get("const")]) if isinstance(schema, dict) else []
    others = set(schema) - {"enum", "const", "type", *ANNOTATIONS} if isinstance(schema, dict) else ()
    keys = [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
    if others or not keys or (isinstance(schema, dict) and {"enum", "const"} <= set(schema)):
        raise SchemaRefused("propertyNames", "allows no key" if not others else "may hold nothing next to the keys")
    return "|".join(map(patterns.escaped, keys))


def length(schema: Keywords, keyword: str) -> int | None:
    value = schema.get(keyword)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0 or value != int(value):
        raise SchemaRefused(keyword, "must be a whole number that is not negative")
    return int(value)


def is_second_pattern(schema: Keywords) -> bool:
    match schema.get("allOf"):
        case [{"pattern": str(), **rest}]:
            return schema.get("type") == "string" and "pattern" in schema and not rest
        case _:
            return False


def _second_pattern(schema: Keywords) -> str | None:
    """The pattern in an `allOf`, which the export writes for a string with both a format and a pattern."""
    match schema.get("allOf"):
        case [{"pattern": str(pattern), **rest}] if not rest:
            return pattern
        case None:
            return None
        case _:
            raise SchemaRefused("allOf", "cannot be combined with a string")


def format_name(name: JsonValue) -> str | None:
    """The name in PastaLang of a format of JSON Schema."""
    return str(name) if name in STANDARD_FORMATS else None


def is_remark_format(schema: Keywords) -> bool:
    """Whether the schema names a format that the standard does not know, which has no effect on values."""
    name = schema.get("format")
    return name is not None and name not in {*STANDARD_FORMATS, *CHECKED_FORMATS, *REFUSED_FORMATS}


def _format(name: JsonValue) -> str | None:
    if name in REFUSED_FORMATS:
        raise SchemaRefused("format", f"the format {name} cannot be enforced")
    return format_name(name)


def _bounds(schema: Keywords) -> tuple[Decimal | None, Decimal | None, Decimal | None, Decimal | None, Decimal | None]:
    low, high = _number(schema, "minimum"), _number(schema, "maximum")
    above, below = _number(schema, "exclusiveMinimum"), _number(schema, "exclusiveMaximum")
    step = _number(schema, "multipleOf")
    if step is not None and step <= 0:
        raise SchemaRefused("multipleOf", "must be above 0")
    return low, high, above, below, step


def _number(schema: Keywords, keyword: str) -> Decimal | None:
    value = schema.get(keyword)
    if value is None:
        return None
    if isinstance(value, bool):
        raise SchemaRefused(keyword, "is true or false, as in draft 4; write the bound itself")
    if not isinstance(value, int | Decimal):
        raise SchemaRefused(keyword, "must be a number")
    return Decimal(value)


def _a_bound(schema: Keywords) -> str:
    return next(name for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum") if name in schema)
