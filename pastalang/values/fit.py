"""Reads the text of a value, checks the value against its type, and fills in its defaults.

text ── read ── exact JSON value ── fit ── value with defaults, mismatches ── to_python ── Python value

A value of `schema(...)` is validated by the `jsonschema` library: numbers are exact decimals, patterns match in linear
time, and formats are those of PastaLang. The library never uses the network: references lead only into the document.
"""

from __future__ import annotations

import datetime
import re
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from pastalang import limits
from pastalang.program import types as t
from pastalang.program.regex import RegexError
from pastalang.program.visit import NO_TYPES, flat_arms, json_kinds, walk
from pastalang.values import patterns
from pastalang.values.describe import counted, describe
from pastalang.values.json import (
    JsonValue,
    NotJson,
    decimal_text,
    kind_of,
    parse_json,
    same_json,
    spell,
    with_scalars,
    write_json,
)
from pastalang.values.paths import Mismatch
from pastalang.values.patterns import FORMATS, STANDARD_FORMATS, matches, patterns_of, whole_pattern
from pastalang.values.quotes import is_quotation

if TYPE_CHECKING:  # importing the library takes a tenth of a second, and few programs need it
    from jsonschema.protocols import Validator


NO_SOURCES: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Reading:
    """`value` is exact JSON (numbers are `int` or `Decimal`) with defaults filled in. It is valid only if it `fits`."""

    value: JsonValue
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.mismatches


def read(
    text: str,
    type: t.Type,
    types: Mapping[str, t.Type] = NO_TYPES,
    *,
    quoted: bool = True,
    sources: Mapping[str, str] = NO_SOURCES,
) -> Reading:
    """Reads JSON text, or with `quoted=False` a value in running text, where strings have no quotes."""
    if not quoted:
        return _read_running(text, type, types, sources)
    try:
        value = parse_json(text)
    except NotJson as problem:
        return Reading(None, (Mismatch((), str(problem)),))
    return Reading(*fit(type, value, types, sources=sources))


def to_python(type: t.Type, value: JsonValue, types: Mapping[str, t.Type] = NO_TYPES) -> Any:
    """The Python value of a value that fits: dates, UUIDs, tuples, and `float` for numbers. Objects stay `dict`s."""
    return _rebuilt(type, value, types, _python_scalar, tuple)


def _python_scalar(type: t.Type, value: JsonValue) -> Any:
    match type:
        case t.Number():
            return float(value)  # type: ignore[arg-type]
        case t.Temporal(kind=kind):
            return _moment(kind, str(value))
        case t.Uuid():
            return uuid.UUID(str(value))
        case _:
            return to_plain(value)


def is_absent(field: t.Field, value: JsonValue) -> bool:
    """Whether the value of the key means that it is left out."""
    return value is None and field.default is not None and field.default.is_absent


def may_leave_out(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> bool:
    """Whether a value of the type may lack a key that the model writes."""
    return any(_has_absent(one) for one in (type, *types.values()))


@lru_cache(maxsize=1024)
def _has_absent(type: t.Type) -> bool:
    objects = (part for _, part in walk(type) if isinstance(part, t.Object))
    return any(one.default is not None and one.default.is_absent for each in objects for one in each.fields)


def without_absent(type: t.Type, value: JsonValue, types: Mapping[str, t.Type] = NO_TYPES) -> JsonValue:
    """The value without the keys whose null means that they are left out."""
    return _rebuilt(type, value, types, lambda _, part: part, list) if may_leave_out(type, types) else value


def _rebuilt(
    type: t.Type,
    value: JsonValue,
    types: Mapping[str, t.Type],
    scalar: Callable[[t.Type, JsonValue], Any],
    in_tuple: Callable[[list[Any]], Any],
) -> Any:
    """The value without absent keys, with `scalar` for its parts that are no structures."""

    def part(type: t.Type, value: JsonValue) -> Any:
        return _rebuilt(type, value, types, scalar, in_tuple)

    match type:
        case t.Array(item=item) if isinstance(value, list):
            return [part(item, one) for one in value]
        case t.Tuple(items=items) if isinstance(value, list) and len(items) == len(value):
            return in_tuple(list(map(part, items, value)))
        case t.Map(value=item) if isinstance(value, dict):
            return {key: part(item, one) for key, one in value.items()}
        case t.Object(fields=fields) if isinstance(value, dict):
            known = {one.key: one for one in fields}
            kept = {key: one for key, one in value.items() if key not in known or not is_absent(known[key], one)}
            return {key: part(known[key].type if key in known else t.Anything(), one) for key, one in kept.items()}
        case t.Union(arms=arms):
            fitting = next((arm for arm in arms if not find_mismatches(arm, value, types)), None)
            return scalar(t.Anything(), value) if fitting is None else part(fitting, value)
        case t.Named(name=name):
            return part(types[name], value)
        case _:
            return scalar(type, value)


def to_plain(value: JsonValue) -> Any:
    """The value as `json.loads` returns it: decimals become floats."""
    return with_scalars(value, lambda one: float(one) if isinstance(one, Decimal) else one)


def _moment(kind: t.Moment, text: str) -> datetime.date | datetime.datetime | datetime.time:
    match kind:
        case t.Moment.DATE:
            return datetime.date.fromisoformat(text)
        case t.Moment.DATETIME:
            return datetime.datetime.fromisoformat(text)
        case t.Moment.TIME:
            return datetime.time.fromisoformat(text)


def _read_running(text: str, type: t.Type, types: Mapping[str, t.Type], sources: Mapping[str, str]) -> Reading:
    """Strings have no quotes here, so an exact literal is tried first, then other JSON, then free text."""
    arms = flat_arms(type)
    literal = any(isinstance(arm, t.Literal) and arm.value == text for arm in arms if _is_text(arm))
    structured = t.Union(tuple(arm for arm in arms if not _is_text(arm)))
    if not literal and structured.arms:
        one = structured.arms[0] if len(structured.arms) == 1 else structured
        found = read(text, one, types, sources=sources)
        if found.fits or len(structured.arms) == len(arms):
            return found if found.fits or len(arms) > 1 else _without_jargon(found, type, text)
    return Reading(*fit(t.Union(arms) if len(arms) > 1 else arms[0], text, types, sources=sources))


def _is_text(arm: t.Type) -> bool:
    return json_kinds(arm) == {"string"}


def _without_jargon(found: Reading, type: t.Type, text: str) -> Reading:
    """Running text is not JSON to its author: `twelve` for an integer is a wrong value, not "broken JSON"."""
    if found.mismatches and found.mismatches[0].reason.startswith("not JSON"):
        return Reading(None, (Mismatch((), f"expected {describe(type)}, found {text!r}"),))
    return found


# ── fitting ────────────────────────────────────────────────────────────────────────────────────────────

Mismatches: TypeAlias = tuple[Mismatch, ...]
Fitted: TypeAlias = tuple[JsonValue, Mismatches]  # the value with defaults filled in, and what is wrong with it

_LARGEST: Final = Decimal("1.7976931348623157e308")


def find_mismatches(
    type: t.Type,
    value: JsonValue,
    types: Mapping[str, t.Type] = NO_TYPES,
    *,
    sources: Mapping[str, str] = NO_SOURCES,
) -> list[Mismatch]:
    """Everything that is wrong with the value; empty if it fits. `sources` are the inputs, for `verbatim`."""
    return list(fit(type, value, types, sources=sources)[1])


def fit(
    type: t.Type,
    value: JsonValue,
    types: Mapping[str, t.Type] = NO_TYPES,
    *,
    sources: Mapping[str, str] = NO_SOURCES,
) -> Fitted:
    """The value with the defaults of its missing keys, and at most `MAX_MISMATCHES` mismatches."""
    if _nests_too_deep(value):
        return value, _one(f"nests more than {limits.MAX_JSON_NESTING} deep")
    found, mismatches = _Fitting(types, sources).fit(type, value)
    return found, mismatches[: limits.MAX_MISMATCHES]


@dataclass(frozen=True, slots=True)
class _Fitting:
    types: Mapping[str, t.Type]
    sources: Mapping[str, str]
    # Unions of recursive types try the same part many times. Each part is fitted once per type.
    known: dict[tuple[int, int], Fitted] = field(default_factory=dict)

    def fit(self, type: t.Type, value: JsonValue) -> Fitted:
        if isinstance(type, t.Named):
            target = self.resolve(type.name)
            if target is None:
                return value, _one(f"the type {type.name} is not known, or never ends")
            type = target
        if not isinstance(value, list | dict):
            return self.fit_anew(type, value)
        key = (id(type), id(value))
        if key not in self.known:
            self.known[key] = self.fit_anew(type, value)
        return self.known[key]

    def fit_anew(self, type: t.Type, value: JsonValue) -> Fitted:
        assert not isinstance(type, t.Named)
        match type:
            case t.Array():
                return self.fit_array(type, value)
            case t.Tuple():
                return self.fit_tuple(type, value)
            case t.Map():
                return self.fit_map(type, value)
            case t.Object():
                return self.fit_object(type, value)
            case t.Union(discriminator=None):
                return self.fit_union(type, value)
            case t.Union():
                return self.fit_discriminated(type, value)
            case t.Schema(document=document):
                return value, document_mismatches(document, value)
            case t.Anything():
                return value, ()
            case t.Integer() | t.Number():
                return _fit_number(type, value)
            case t.String():
                return value, _expect_string(type, value, lambda text: _string_mismatches(type, text))
            case t.Regex(pattern=pattern):
                return value, _expect_string(type, value, lambda text: _pattern_mismatches(pattern, text))
            case _ if isinstance(type, t.Patterned):
                (pattern,) = patterns_of(type)
                return value, _expect_string(type, value, lambda text: _spelling_mismatches(type, pattern, text))
            case t.Verbatim():
                return value, _expect_string(type, value, lambda text: self.verbatim_mismatches(type, text))
            case t.Boolean():
                return value, () if isinstance(value, bool) else _unexpected(type, value)
            case t.Null():
                return value, () if value is None else _unexpected(type, value)
            case t.Literal(value=wanted):
                return value, () if same_json(value, wanted) else _unexpected(type, value)
            case _:
                assert_never(type)

    def resolve(self, name: str) -> t.Type | None:
        """The type that a name leads to, through other names; None for an unknown name or a circle of names."""
        seen: set[str] = set()
        while name not in seen and name in self.types:
            seen.add(name)
            target = self.types[name]
            if not isinstance(target, t.Named):
                return target
            name = target.name
        return None

    def verbatim_mismatches(self, type: t.Verbatim, text: str) -> Mismatches:
        source = type.source
        if not text:
            return _one(f"a span of `{source}` has at least one character")
        if source not in self.sources or is_quotation(text, self.sources[source], type.at):
            return ()
        if text in self.sources[source]:
            return _one(f"{_shown(text)} does not begin and end at {type.at.value} in `{source}`")
        return _one(f"{_shown(text)} does not occur in `{source}`")

    # ── structures ───────────────────────────────────────────────────────────────────────────────────────

    def fit_array(self, type: t.Array, value: JsonValue) -> Fitted:
        if not isinstance(value, list):
            return value, _unexpected(type, value)
        mismatches = _count_mismatches(len(value), type.min_items, type.max_items, "item")
        if type.unique and (twice := _find_twice(value)) is not None:
            mismatches += _one(f"item {twice + 1} stands there already; items must differ")
        fitted = [self.fit(type.item, item) for item in value]
        return [item for item, _ in fitted], mismatches + _below(enumerate(wrong for _, wrong in fitted))

    def fit_tuple(self, type: t.Tuple, value: JsonValue) -> Fitted:
        if not isinstance(value, list):
            return value, _unexpected(type, value)
        if len(value) != len(type.items):
            return value, _one(f"expected {counted(len(type.items), 'item')}, found {len(value)}")
        fitted = [self.fit(place, item) for place, item in zip(type.items, value, strict=True)]
        return [item for item, _ in fitted], _below(enumerate(wrong for _, wrong in fitted))

    def fit_map(self, type: t.Map, value: JsonValue) -> Fitted:
        if not isinstance(value, dict):
            return value, _unexpected(type, value)
        mismatches = _count_mismatches(len(value), type.min_items, type.max_items, "key")
        if type.key_pattern is not None:
            wrong = [key for key in value if not patterns.matches(type.key_pattern, key)]
            mismatches += tuple(
                Mismatch((), f"the key {_shown(key)} does not match /{type.key_pattern}/") for key in wrong
            )
        return _together({key: self.fit(type.value, item) for key, item in value.items()}, mismatches)

    def fit_object(self, type: t.Object, value: JsonValue) -> Fitted:
        if not isinstance(value, dict):
            return value, _unexpected(type, value)
        fitted: dict[str, Fitted] = {}
        missing: Mismatches = ()
        for place in type.fields:
            if place.key in value:
                fitted[place.key] = self.fit(place.type, value[place.key])
            elif place.default is not None:
                fitted[place.key] = parse_json(place.default.json), ()
            else:
                missing += _one(f"the key {_shown(place.key)} is missing")
        keys = {place.key for place in type.fields}
        unknown = tuple(Mismatch((), f"there is no key {_shown(key)}") for key in value if key not in keys)
        return _together(fitted, missing + unknown)

    # ── unions ───────────────────────────────────────────────────────────────────────────────────────────

    def fit_union(self, type: t.Union, value: JsonValue) -> Fitted:
        """The first arm that fits. If none does, and one arm takes values of this kind, the mismatches of that arm."""
        near: list[Fitted] = []
        for arm in type.arms:
            fitted = self.fit(arm, value)
            if not fitted[1]:
                return fitted
            if self.is_near(arm, value):
                near.append(fitted)
        return near[0] if len(near) == 1 else (value, _unexpected(type, value))

    def is_near(self, arm: t.Type, value: JsonValue) -> bool:
        """Returns True if the arm takes values of this kind: then its mismatches say more than those of the union."""
        match self.shape(arm):
            case t.Object() | t.Map():
                return isinstance(value, dict)
            case t.Array() | t.Tuple():
                return isinstance(value, list)
            case t.Integer() | t.Number():
                return isinstance(value, int | Decimal) and not isinstance(value, bool)
            case t.Literal() | t.Boolean() | t.Null() | None:
                return False
            case t.Union() | t.Schema():
                return True
            case _:
                return isinstance(value, str)

    def fit_discriminated(self, type: t.Union, value: JsonValue) -> Fitted:
        key = type.discriminator
        assert key is not None
        objects = [(arm, shape) for arm in type.arms if isinstance(shape := self.shape(arm), t.Object)]
        if not isinstance(value, dict):
            others = t.Union(tuple(arm for arm in type.arms if not isinstance(self.shape(arm), t.Object)))
            fitted = self.fit_union(others, value) if others.arms else (value, _one(""))
            return fitted if not fitted[1] else (value, _unexpected(type, value))
        tags = [(arm, [tag for tag in _tags(shape, key) if isinstance(tag, t.Literal)]) for arm, shape in objects]
        for arm, allowed in tags:
            if key in value and any(same_json(value[key], tag.value) for tag in allowed):
                return self.fit(arm, value)
        if key not in value:
            return value, _one(f"the key {_shown(key)} is missing")
        wanted = describe(t.Union(tuple(tag for _, allowed in tags for tag in allowed)))
        return value, (Mismatch((key,), f"expected {wanted}, found {_shown(value[key])}"),)

    def shape(self, arm: t.Type) -> t.Type | None:
        return self.resolve(arm.name) if isinstance(arm, t.Named) else arm


def find_discriminator(arms: Sequence[t.Type], *, allow_defaults: bool = False) -> str | None:
    """The first key whose literals differ in all object arms, if there are several.

    A key with a default may be missing in a value. It counts only with `allow_defaults`, where values always have it.
    """
    objects = [arm for arm in arms if isinstance(arm, t.Object)]
    if len(objects) < 2:
        return None
    keys = (place.key for place in objects[0].fields if allow_defaults or place.default is None)
    return next((key for key in keys if _distinguishes(key, objects, allow_defaults=allow_defaults)), None)


def _distinguishes(key: str, objects: Sequence[t.Object], *, allow_defaults: bool) -> bool:
    seen: set[t.Type] = set()
    for one in objects:
        tags = set(_tags(one, key, allow_defaults=allow_defaults))
        if not tags or tags & seen or not all(isinstance(tag, t.Literal) for tag in tags):
            return False
        seen |= tags
    return True


def _tags(shape: t.Object, key: str, *, allow_defaults: bool = True) -> tuple[t.Type, ...]:
    """The alternatives of what the key may hold."""
    places = [place for place in shape.fields if place.key == key and (allow_defaults or place.default is None)]
    return tuple(arm for place in places for arm in flat_arms(place.type))


# ── scalars ──────────────────────────────────────────────────────────────────────────────────────────────


def _fit_number(type: t.Integer | t.Number, value: JsonValue) -> Fitted:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return value, _unexpected(type, value)
    if isinstance(type, t.Integer) and isinstance(value, Decimal):
        if value != value.to_integral_value():
            return value, _one(f"expected {describe(type)}, found {decimal_text(value)}")
        value = int(value)
    if isinstance(type, t.Number) and not -_LARGEST <= value <= _LARGEST:
        return value, _one("is too large for a number; 1.8e308 is the limit")
    return value, tuple(Mismatch((), f"{spell(value)} is {reason}") for reason in _bound_problems(type, value))


def _bound_problems(type: t.Integer | t.Number, value: int | Decimal) -> Iterator[str]:
    if type.minimum is not None and value < type.minimum:
        yield f"less than {spell(type.minimum)}"
    if type.maximum is not None and value > type.maximum:
        yield f"more than {spell(type.maximum)}"
    if type.exclusive_minimum is not None and value <= type.exclusive_minimum:
        yield f"not above {spell(type.exclusive_minimum)}"
    if type.exclusive_maximum is not None and value >= type.exclusive_maximum:
        yield f"not below {spell(type.exclusive_maximum)}"
    if type.multiple_of is not None and Fraction(value) % Fraction(type.multiple_of) != 0:
        yield f"not a multiple of {spell(type.multiple_of)}"


def _expect_string(type: t.Type, value: JsonValue, check: Callable[[str], Mismatches]) -> Mismatches:
    return check(value) if isinstance(value, str) else _unexpected(type, value)


def _string_mismatches(type: t.String, text: str) -> Mismatches:
    mismatches = _count_mismatches(len(text), type.min_chars, type.max_chars, "character")
    if type.pattern is not None:
        mismatches += _pattern_mismatches(type.pattern, text)
    if type.format is not None and not patterns.matches(FORMATS[type.format].pattern, text):
        mismatches += _one(f"{_shown(text)} is not {FORMATS[type.format].meaning}")
    return mismatches


def _pattern_mismatches(pattern: str, text: str) -> Mismatches:
    return () if patterns.matches(pattern, text) else _one(f"{_shown(text)} does not match /{pattern}/")


def _spelling_mismatches(type: t.Type, pattern: str, text: str) -> Mismatches:
    return () if patterns.matches(pattern, text) else _one(f"expected {describe(type)}, found {_shown(text)}")


def _count_mismatches(count: int, minimum: int, maximum: int | None, noun: str) -> Mismatches:
    if count < minimum:
        return _one(f"has {counted(count, noun)}; at least {minimum} must be there")
    if maximum is not None and count > maximum:
        return _one(f"has {counted(count, noun)}; at most {maximum} may be there")
    return ()


def _find_twice(items: list[JsonValue]) -> int | None:
    """The index of the first item that equals an earlier one. Equal values have equal texts here."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        key = write_json(_sorted(item))
        if key in seen:
            return index
        seen.add(key)
    return None


def _sorted(value: JsonValue) -> JsonValue:
    match value:
        case list():
            return [_sorted(item) for item in value]
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value)}
        case int() if not isinstance(value, bool):
            return Decimal(value)
        case _:
            return value


def _nests_too_deep(value: JsonValue) -> bool:
    """Returns True if the value nests too deep. Goes level by level: recursion waits until the depth is known."""
    level: list[JsonValue] = [value]
    for _ in range(limits.MAX_JSON_NESTING + 1):
        level = [
            part
            for item in level
            if isinstance(item, list | dict)
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


# ── mismatches ───────────────────────────────────────────────────────────────────────────────────────────


def _one(reason: str) -> Mismatches:
    return (Mismatch((), reason),)


def _unexpected(type: t.Type, value: JsonValue) -> Mismatches:
    found = _shown(value) if isinstance(value, str | int | Decimal) else kind_of(value)
    return _one(f"expected {describe(type)}, found {found}")


def _together(fitted: Mapping[str, Fitted], mismatches: Mismatches) -> Fitted:
    below = _below((key, wrong) for key, (_, wrong) in fitted.items())
    return {key: item for key, (item, _) in fitted.items()}, mismatches + below


def _below(parts: Iterable[tuple[str | int, Mismatches]]) -> Mismatches:
    return tuple(mismatch.below(step) for step, wrong in parts for mismatch in wrong)


def _shown(value: JsonValue) -> str:
    text = write_json(value)
    return text if len(text) <= limits.MAX_NAME_CHARS else text[: limits.MAX_NAME_CHARS] + "…"


# ── values of a JSON Schema ────────────────────────────────────────────────────────────────────────────

_ONLY_IN_PYTHON: Final = re.compile(r"\(\?[P#aiLmsux]|\\[AZ]|[+*?}]\+")


def document_mismatches(document: str, value: JsonValue) -> tuple[Mismatch, ...]:
    errors = _validator(document).iter_errors(value)
    found = [Mismatch(tuple(error.absolute_path), _reason(error)) for error in errors]
    return tuple(found[: limits.MAX_MISMATCHES])


@lru_cache(maxsize=128)
def _validator(document: str) -> Validator:
    from jsonschema import Draft202012Validator, FormatChecker, validators
    from referencing import Registry

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer).redefine("number", _is_number)
    exact = validators.extend(
        Draft202012Validator,
        {"multipleOf": _multiple_of, "pattern": _pattern},
        type_checker=checker,
    )
    formats = FormatChecker(formats=())
    for name in STANDARD_FORMATS:
        formats.checks(name)(_format_check(FORMATS[name].pattern))
    formats.checks("regex")(_is_regex)
    return exact(parse_json(document), registry=Registry(), format_checker=formats)


def _is_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_checker: object, value: object) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _multiple_of(_validator: object, step: Any, value: Any, _schema: object) -> Any:
    from jsonschema import ValidationError

    if _is_number(None, value) and Fraction(value) % Fraction(step) != 0:
        yield ValidationError(f"{value} is not a multiple of {step}")


def _pattern(_validator: object, pattern: str, value: Any, _schema: object) -> Any:
    from jsonschema import ValidationError

    if not isinstance(value, str):
        return
    try:
        fits = matches(whole_pattern(pattern), value)
    except RegexError as problem:
        yield ValidationError(f"/{pattern}/ cannot be checked: {problem.message}")
    else:
        if not fits:
            yield ValidationError(f"{value!r} does not match /{pattern}/")


def _format_check(pattern: str) -> Any:
    def check(value: object) -> bool:
        return not isinstance(value, str) or matches(pattern, value)

    return check


def _is_regex(value: object) -> bool:
    """Returns True if a text is an expression of ECMA 262, as far as Python knows. What only Python knows is none."""
    if not isinstance(value, str):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", value))
    except (re.error, RecursionError, OverflowError, Warning):
        return False
    return _ONLY_IN_PYTHON.search(value) is None


def _reason(error: Any) -> str:
    message = str(error.message)
    return message if len(message) <= limits.MAX_NAME_CHARS else message[: limits.MAX_NAME_CHARS] + "…"
