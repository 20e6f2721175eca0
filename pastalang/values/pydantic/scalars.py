"""Converts the scalars of Pydantic's core schema, and outlines terms in the fields of a model, to hole types."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import chain
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pastalang.limits import MAX_ARMS
from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex
from pastalang.values import patterns
from pastalang.values.lengths import has_numbers
from pastalang.values.patterns import MOMENTS, UUID, find_problem, url_pattern


class Refused(Exception):
    """A part of a model that has no hole type; the message says which."""


@dataclass(slots=True)
class Site:
    """The context of one field: the configuration of its model, and the notes made so far."""

    config: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


CoreSchema = Mapping[str, Any]
Moments = TypeVar("Moments", t.String, t.Regex)
_ALWAYS: Final = frozenset({"type", "ref", "metadata", "serialization", "strict"})


def expect_keys(schema: CoreSchema, known: Collection[str]) -> None:
    unknown = [key for key, value in schema.items() if key not in _ALWAYS and key not in known and value is not None]
    if unknown:
        raise Refused(f"`{unknown[0]}` of {schema['type']} is not supported")


def string_type(schema: CoreSchema, site: Site) -> t.Type:
    expect_keys(
        schema,
        {"min_length", "max_length", "pattern", "regex_engine", "coerce_numbers_to_str", "ascii_only"}
        | {"strip_whitespace", "to_lower", "to_upper"},
    )
    for name, words in _REWRITES.items():
        if schema.get(name, site.config.get(f"str_{name}")):
            site.note(f"the model {words} before it checks the value")
    pattern = schema.get("pattern")
    if schema.get("ascii_only") and pattern is not None:
        raise Refused("`ascii_only` together with `pattern` is not supported")
    whole = r"[\x00-\x7f]*" if schema.get("ascii_only") else None
    if pattern is not None:
        whole = _pattern(pattern, schema.get("regex_engine", site.config.get("regex_engine")))
    return t.String(
        min_chars=schema.get("min_length", site.config.get("str_min_length")) or 0,
        max_chars=schema.get("max_length", site.config.get("str_max_length")),
        pattern=whole,
    )


_REWRITES: Final[Mapping[str, str]] = MappingProxyType(
    {"strip_whitespace": "strips white space", "to_lower": "writes lower case", "to_upper": "writes upper case"}
)


def integer_type(schema: CoreSchema, site: Site) -> t.Type:
    expect_keys(schema, {"ge", "le", "gt", "lt", "multiple_of"})
    return t.Integer(
        minimum=_whole(schema, "ge", up=True),
        maximum=_whole(schema, "le", up=False),
        exclusive_minimum=_whole(schema, "gt", up=False),
        exclusive_maximum=_whole(schema, "lt", up=True),
        multiple_of=schema.get("multiple_of"),
    )


def float_type(schema: CoreSchema, site: Site) -> t.Type:
    expect_keys(schema, {"ge", "le", "gt", "lt", "multiple_of", "allow_inf_nan"})
    return _number(schema)


def decimal_type(schema: CoreSchema, site: Site) -> t.Type:
    """`decimal_places` becomes a step. `max_digits` becomes a bound, exact only together with `decimal_places`.

    Pydantic counts the 0 before the point of 0 alone. So without room for a digit there, 0 is no value.
    """
    expect_keys(schema, {"ge", "le", "gt", "lt", "multiple_of", "allow_inf_nan", "max_digits", "decimal_places"})
    places, digits = schema.get("decimal_places"), schema.get("max_digits")
    bare = _number(schema)
    step = bare.multiple_of
    if places is not None:
        if step is not None:
            raise Refused("`multiple_of` together with `decimal_places` is not supported")
        step = Decimal((0, (1,), -places if digits is None else -min(places, digits)))
    if digits is None:
        return replace(bare, multiple_of=step)
    if places is None:
        site.note("`max_digits` counts the digits after the point too")
    bound = Decimal((0, (1,), max(0, digits - (places or 0))))
    number = replace(_below(_above(bare, -bound), bound), multiple_of=step)
    if places is None or places < digits:
        return number
    signed = tuple(part for part in (_above(number, Decimal(0)), _below(number, Decimal(0))) if has_numbers(part))
    if not signed:
        raise Refused("no decimal lies between the bounds")
    return signed[0] if len(signed) == 1 else t.Union(signed)


def _above(number: t.Number, bound: Decimal) -> t.Number:
    low = number.exclusive_minimum
    return replace(number, exclusive_minimum=bound if low is None else max(low, bound))


def _below(number: t.Number, bound: Decimal) -> t.Number:
    high = number.exclusive_maximum
    return replace(number, exclusive_maximum=bound if high is None else min(high, bound))


def literal_type(schema: CoreSchema, site: Site) -> t.Type:
    expect_keys(schema, {"expected"})
    return one_of([_scalar(value) for value in schema["expected"]])


def enum_type(schema: CoreSchema, site: Site) -> t.Type:
    expect_keys(schema, {"cls", "members", "sub_type", "missing"})
    if schema.get("missing") is not None:
        site.note(f"`{schema['cls'].__name__}._missing_` accepts more than its members")
    return one_of([_scalar(member) for member in schema["members"]])


def datetime_type(schema: CoreSchema, site: Site) -> t.Type:
    """With bounds, times are written as the bounds are: without an offset, or in UTC."""
    zone = schema.get("tz_constraint")
    if zone not in (None, "aware", "naive"):
        raise Refused("a fixed offset of a datetime is not supported")
    format = {"aware": "date-time", "naive": "local-date-time"}.get(str(zone))
    found = _within(schema, datetime_between) if _has_bounds(schema) else None
    if isinstance(found, t.String) and format in (None, found.format):
        _note_bounds({**schema, **_NO_BOUNDS}, site)
        return found
    _note_bounds(schema, site)
    return t.Temporal(t.Moment.DATETIME) if format is None else t.String(format=format)


def date_type(schema: CoreSchema, site: Site) -> t.Type:
    if not _has_bounds(schema):
        _note_bounds(schema, site)
        return t.Temporal(t.Moment.DATE)
    _note_bounds({**schema, **_NO_BOUNDS}, site)
    return _within(schema, date_between) or t.Temporal(t.Moment.DATE)


_NO_BOUNDS: Final[CoreSchema] = MappingProxyType({"ge": None, "gt": None, "le": None, "lt": None})


def _has_bounds(schema: CoreSchema) -> bool:
    return any(schema.get(name) is not None for name in _NO_BOUNDS)


def _within(schema: CoreSchema, between: Callable[[CoreSchema], Moments | None]) -> Moments | None:
    try:
        return between(schema)
    except NoMoment as problem:
        raise Refused(str(problem)) from None


def time_type(schema: CoreSchema, site: Site) -> t.Type:
    if _has_bounds(schema) and schema.get("tz_constraint") is None:
        found = _within(schema, time_between)
        if found is not None:
            _note_bounds({**schema, **_NO_BOUNDS}, site)
            return found
    _note_bounds(schema, site)
    if schema.get("tz_constraint") == "aware":
        return t.String(format="time")
    if schema.get("tz_constraint") is not None:
        raise Refused("a time without an offset, or with a fixed one, is not supported")
    return t.Temporal(t.Moment.TIME)


def duration_type(schema: CoreSchema, site: Site) -> t.Type:
    _note_bounds(schema, site)
    site.note("a duration must be small enough for `timedelta`")
    return t.String(format="duration")


def uuid_type(schema: CoreSchema, site: Site) -> t.Type:
    expect_keys(schema, {"version"})
    version = schema.get("version")
    if version is None:
        return t.Uuid()
    return t.Regex(f"[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version:x}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}")


def url_type(schema: CoreSchema, site: Site) -> t.Type:
    known = {"max_length", "allowed_schemes", "host_required", "default_host", "default_port", "default_path"}
    expect_keys(schema, {*known, "preserve_empty_path"})
    schemes = schema.get("allowed_schemes")
    if schemes is not None and not {"http", "https"} <= set(schemes):
        site.note("an address is rewritten by the model")
        return t.String(pattern=url_pattern(schemes), max_chars=schema.get("max_length"))
    site.note(
        "only `http` and `https` addresses are written" if schemes is None else "an address is rewritten by the model"
    )
    return t.String(format="url", max_chars=schema.get("max_length"))


def key_pattern(schema: CoreSchema, site: Site) -> str | None:
    """The pattern of a dict's keys as JSON strings; None if they may be any string."""
    match schema["type"]:
        case "any":
            return None
        case "str":
            return _string_key(string_type(schema, site), site)
        case "int":
            expect_keys(schema, ())
            return "-?[1-9][0-9]*|0"
        case "uuid":
            return UUID
        case "date":
            return MOMENTS[t.Moment.DATE]
        case "literal" | "enum":
            keys = literal_type(schema, site) if schema["type"] == "literal" else enum_type(schema, site)
            return _literal_keys(keys)
        case "function-plain" if (found := outlines_field(schema)) is not None:
            return found.pattern if isinstance(found, t.Regex) else _literal_keys(found)
        case kind:
            raise Refused(f"keys of the type {kind} are not supported")


def one_of(values: Iterable[t.Scalar]) -> t.Type:
    arms = tuple(dict.fromkeys(t.Literal(value) for value in values))
    if not arms:
        raise Refused("an empty enum has no values")
    if len(arms) > MAX_ARMS:
        raise Refused(f"an enum of {len(arms):,} values; the limit is {MAX_ARMS:,}")
    if all(arm == t.Null() or arm.value is None for arm in arms):
        return t.Null()
    shown: list[t.Type] = [t.Null() if arm.value is None else arm for arm in arms]
    return shown[0] if len(shown) == 1 else t.Union(tuple(shown))


SCALARS: Final[Mapping[str, Callable[[CoreSchema, Site], t.Type]]] = MappingProxyType(
    {
        "str": string_type,
        "int": integer_type,
        "float": float_type,
        "decimal": decimal_type,
        "literal": literal_type,
        "enum": enum_type,
        "date": date_type,
        "datetime": datetime_type,
        "time": time_type,
        "timedelta": duration_type,
        "uuid": uuid_type,
        "url": url_type,
        "bool": lambda schema, site: t.Boolean(),
        "none": lambda schema, site: t.Null(),
        "any": lambda schema, site: t.Anything(),
    }
)


def validator_name(function: Any) -> str:
    """The name of a function, or of what it calls or is an instance of."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def shown(value: object) -> str:
    """A value as Python writes it, without its address in memory, which differs from run to run."""
    return re.sub(" at 0x[0-9a-fA-F]+", "", repr(value))


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────


def _pattern(pattern: str | re.Pattern[str], engine: str | None) -> str:
    if isinstance(pattern, re.Pattern):
        if pattern.flags & ~re.UNICODE:
            raise Refused("a compiled pattern with flags is not supported; write the classes out: `[Aa]`")
        pattern, engine = pattern.pattern, "python-re"
    try:
        whole = patterns.whole_pattern(pattern)
        if engine != "python-re":
            patterns.expect_no_operators(whole)
        narrowed = patterns.narrowed(whole)
        parse_regex(narrowed)
    except RegexError as problem:
        raise Refused(f"the pattern `{pattern}` cannot be enforced while decoding: {problem.message}") from None
    return narrowed


def _number(schema: CoreSchema) -> t.Number:
    return t.Number(
        minimum=_decimal(schema, "ge"),
        maximum=_decimal(schema, "le"),
        exclusive_minimum=_decimal(schema, "gt"),
        exclusive_maximum=_decimal(schema, "lt"),
        multiple_of=_decimal(schema, "multiple_of"),
    )


def _decimal(schema: CoreSchema, name: str) -> Decimal | None:
    value = schema.get(name)
    if value is None:
        return None
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise Refused(f"`{name}` is {value}, which is not a JSON number; remove it")
    return exact


def _whole(schema: CoreSchema, name: str, *, up: bool) -> int | None:
    """The bound of an integer, which may be written as a fraction: above 2.5 means 3 or more."""
    bound = _decimal(schema, name)
    if bound is None:
        return None
    return int(bound.to_integral_value("ROUND_CEILING" if up else "ROUND_FLOOR"))


def _scalar(value: object) -> t.Scalar:
    plain = value.value if isinstance(value, Enum) else value
    match plain:
        case float() | Decimal() if not isfinite(plain):
            raise Refused(f"the value {plain} has no JSON spelling")
        case None | bool() | str() | int() | Decimal():
            return plain
        case float():
            return Decimal(repr(plain))
        case _:
            raise Refused(f"the value {shown(plain)} has no JSON spelling")


def _note_bounds(schema: CoreSchema, site: Site) -> None:
    expect_keys(schema, {"ge", "le", "gt", "lt", "now_op", "now_utc_offset", "tz_constraint", "microseconds_precision"})
    for name in ("ge", "le", "gt", "lt"):
        if schema.get(name) is not None:
            site.note(f"`{name}` of a {schema['type']}")
    if schema.get("now_op") is not None:
        site.note(f"the {schema['type']} lies in the {schema['now_op']}")


def _string_key(type: t.Type, site: Site) -> str | None:
    assert isinstance(type, t.String)
    if type.pattern is not None:
        if type.min_chars or type.max_chars is not None:
            site.note("the length of keys that match a pattern")
        return type.pattern
    if not type.min_chars and type.max_chars is None:
        return None
    return rf"[\s\S]{{{type.min_chars},{'' if type.max_chars is None else type.max_chars}}}"


def _literal_keys(keys: t.Type) -> str:
    arms = keys.arms if isinstance(keys, t.Union) else (keys,)
    texts = [arm.value for arm in arms if isinstance(arm, t.Literal) and isinstance(arm.value, str)]
    if len(texts) != len(arms):
        raise Refused("keys that are not strings are not supported")
    return "|".join(map(patterns.escaped, texts))


# The functions that write the JSON Schema of the type itself, and of its annotations.
_JSON_SCHEMA_FUNCTIONS = ("pydantic_js_functions", "pydantic_js_annotation_functions")


def outlines_field(schema: CoreSchema) -> t.Type | None:
    """The hole type of an outlines term, or None for another validator.

    Pydantic holds the value of any term as text: one of the texts of a choice, or a match of the term's pattern.
    Raises `Refused` if the pattern cannot be enforced.
    """
    metadata = schema.get("metadata", {})
    for function in chain.from_iterable(metadata.get(key, ()) for key in _JSON_SCHEMA_FUNCTIONS):
        owner: Any = getattr(function, "__self__", None)
        if type(owner).__module__.partition(".")[0] == "outlines":
            return _choice(owner) or _term_pattern(owner, function, schema)
    return None


def _choice(owner: Any) -> t.Type | None:
    items = getattr(owner, "items", ()) if type(owner).__name__ == "Choice" else ()
    if not items or not all(isinstance(item, str) for item in items):
        return None
    literals = tuple(map(t.Literal, dict.fromkeys(items)))
    return literals[0] if len(literals) == 1 else t.Union(literals)


def _term_pattern(owner: Any, function: Any, schema: CoreSchema) -> t.Regex:
    if type(owner).__name__ == "CFG":
        raise Refused("a grammar of outlines cannot be enforced; use a pattern")
    try:
        pattern = str(function(schema, None)["pattern"])
    except (TypeError, ValueError, NotImplementedError) as problem:
        raise Refused(
            f"{shown(owner)} has no pattern ({problem}); for a text that may be null use `Field(pattern=...)`"
        ) from problem
    if (reason := find_problem(pattern)) is not None:
        raise Refused(f"the pattern of {shown(owner)} cannot be enforced: {reason}")
    return t.Regex(patterns.narrowed(pattern))


# ── dates and times within bounds: the digits of a moment sort as it does ──────────────────────────────

_SECOND: Final = datetime.timedelta(seconds=1)
_NAMES: Final = ("ge", "gt", "le", "lt")
_DAY: Final = datetime.timedelta(days=1)
_FRACTION: Final = r"(?:\.\d{1,6})?"


class NoMoment(ValueError):
    """Bounds that leave no date or time."""


def date_between(bounds: Mapping[str, Any]) -> t.String:
    """The dates within the bounds `ge`, `gt`, `le` and `lt`, of which there is at least one."""
    low, high = datetime.date.min, datetime.date.max
    try:
        low = max([low, *_given(bounds, "ge"), *(bound + _DAY for bound in _given(bounds, "gt"))])
        high = min([high, *_given(bounds, "le"), *(bound - _DAY for bound in _given(bounds, "lt"))])
    except OverflowError:
        raise NoMoment("no date lies between the bounds") from None
    if low > high:
        raise NoMoment("no date lies between the bounds")
    return t.String(format="date", pattern=between(low.isoformat(), high.isoformat()))


def datetime_between(bounds: Mapping[str, Any]) -> t.String | None:
    """The times within the bounds, to the second. None if some bounds have an offset and others do not.

    They are written without an offset, as the bounds are, or in UTC if the bounds have offsets.
    """
    given = [bound for name in _NAMES for bound in _given(bounds, name)]
    is_aware = [bound.tzinfo is not None for bound in given]
    if any(is_aware) and not all(is_aware):
        return None
    try:
        low = max([datetime.datetime.min, *map(_up, _given(bounds, "ge")), *map(_after, _given(bounds, "gt"))])
        ends = [*((_plain(bound), False) for bound in _given(bounds, "le"))]
        ends += [(_plain(bound), bound.microsecond == 0) for bound in _given(bounds, "lt")]
        high, is_excluded = min(ends, default=(datetime.datetime.max, True), key=lambda end: (end[0], not end[1]))
        last, final = high.replace(microsecond=0), [] if is_excluded and ends else [_text(high)]
        whole = [between(_text(low), _text(last - _SECOND)) + _FRACTION] if low < last else []
        final = final if low <= last else []
    except OverflowError:
        raise NoMoment("no time lies between the bounds") from None
    if not whole and not final:
        raise NoMoment("no time lies between the bounds")
    pattern = f"(?:{'|'.join([*whole, *final])})" + ("Z" if any(is_aware) else "")
    return t.String(format="date-time" if any(is_aware) else "local-date-time", pattern=pattern)


def time_between(bounds: Mapping[str, Any]) -> t.Regex | None:
    """The times of day within the bounds, without an offset. None if a bound has one."""
    day = datetime.date(2000, 1, 1)
    given = {name: datetime.datetime.combine(day, bounds[name]) for name in _NAMES if bounds.get(name) is not None}
    if any(bound.tzinfo is not None for bound in given.values()):
        return None
    start = datetime.datetime.combine(day, datetime.time.min)
    end = {} if {"le", "lt"} & given.keys() else {"lt": start + _DAY}
    found = datetime_between({"ge": start, **end, **given})
    return None if found is None or found.pattern is None else t.Regex(found.pattern.replace(f"{day}T", ""))


def between(low: str, high: str) -> str:
    """A pattern of the texts from `low` to `high`, which differ in digits only."""
    at = next((at for at, (one, other) in enumerate(zip(low, high, strict=True)) if one != other), None)
    if at is None:
        return low
    first, last = int(low[at]), int(high[at])
    parts = [low[at] + _at_least(low[at + 1 :])]
    if last - first > 1:
        parts.append(f"[{first + 1}-{last - 1}]{_any(low[at + 1 :])}")
    parts.append(high[at] + _at_most(high[at + 1 :]))
    return f"{low[:at]}(?:{'|'.join(parts)})"


def _at_least(text: str) -> str:
    if not text.strip("0-:T"):
        return _any(text)
    last = 5 if _is_tens(text) else 9
    if not text[0].isdigit() or int(text[0]) == last:
        return text[0] + _at_least(text[1:])
    return f"(?:{text[0]}{_at_least(text[1:])}|[{int(text[0]) + 1}-{last}]{_any(text[1:])})"


def _at_most(text: str) -> str:
    if not text.strip("9-:T"):
        return _any(text)
    if not text[0].isdigit() or text[0] == "0":
        return text[0] + _at_most(text[1:])
    return f"(?:[0-{int(text[0]) - 1}]{_any(text[1:])}|{text[0]}{_at_most(text[1:])})"


def _any(text: str) -> str:
    places = (text[at:] for at in range(len(text)))
    return "".join("[0-5]" if _is_tens(rest) else r"\d" if rest[0].isdigit() else rest[0] for rest in places)


def _is_tens(rest: str) -> bool:
    """Tens of minutes and seconds, and in a date those of months and days: none of them is above 5."""
    return len(rest) in (2, 5)


def _given(bounds: Mapping[str, Any], name: str) -> list[Any]:
    return [] if bounds.get(name) is None else [bounds[name]]


def _plain(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _up(moment: datetime.datetime) -> datetime.datetime:
    """The first whole second from the moment on."""
    plain = _plain(moment)
    return plain if plain.microsecond == 0 else plain.replace(microsecond=0) + _SECOND


def _after(moment: datetime.datetime) -> datetime.datetime:
    return _plain(moment).replace(microsecond=0) + _SECOND


def _text(moment: datetime.datetime) -> str:
    return moment.replace(microsecond=0).isoformat()
