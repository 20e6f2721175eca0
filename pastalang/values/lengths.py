"""What a type says about its values before decoding: their lengths, token limits, first characters and number."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Final, assert_never

from pastalang import limits
from pastalang.graphs import DependencyGraph
from pastalang.limits import DEFAULT_LIMITS, DefaultLimits
from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex, texts_of
from pastalang.program.visit import NO_TYPES, arms_of, flat_arms
from pastalang.values import patterns
from pastalang.values.json import literal_bytes, spell
from pastalang.values.patterns import FORMATS

_QUOTES: Final = 2


def min_length(type: t.Type) -> int:
    """A lower bound for the bytes of a value as JSON, with `, ` and `: ` between its parts.

    Named types and schemas count as one byte.
    """
    if isinstance(type, t.Patterned):
        widths = map(patterns.width, patterns.patterns_of(type))
        shortest = max((width[0] for width in widths if width is not None), default=0)
        return max(type.min_chars if isinstance(type, t.String) else 0, shortest) + _QUOTES
    match type:
        case t.Verbatim():
            return 1 + _QUOTES
        case t.Integer() | t.Number():
            return _min_number_length(type)
        case t.Boolean() | t.Null():
            return len("true")
        case t.Literal(value=value):
            return literal_bytes(value, quoted=True) if isinstance(value, str) else 1
        case t.Union(arms=arms):
            return min(map(min_length, arms))
        case _:
            return _min_structure_length(type)


def _min_structure_length(type: t.Type) -> int:
    match type:
        case t.Array(item=item, min_items=minimum):
            return _row(minimum, min_length(item))
        case t.Map(value=value, min_items=minimum):
            return _row(minimum, _QUOTES + 2 + min_length(value))
        case t.Tuple(items=items):
            return _row(len(items), 0) + sum(map(min_length, items))
        case t.Object(fields=fields):
            keys = sum(len(json.dumps(field.key, ensure_ascii=False).encode()) + 2 for field in fields)
            return _row(len(fields), 0) + keys + sum(min_length(field.type) for field in fields)
        case _:
            return 1


def _row(count: int, each: int) -> int:
    return 2 + count * each + 2 * max(count - 1, 0)


def _min_number_length(type: t.Integer | t.Number) -> int:
    low, high = _ends(type)
    if low is not None and low >= 1:
        return len(str(int(low)))
    return 1 + len(str(int(-high))) if high is not None and high <= -1 else 1


def _ends(type: t.Integer | t.Number) -> tuple[int | Decimal | None, int | Decimal | None]:
    """The lowest and the highest number, be they included or not."""
    low = type.minimum if type.minimum is not None else type.exclusive_minimum
    return low, type.maximum if type.maximum is not None else type.exclusive_maximum


# The longest character of a JSON string is an escaped pair of surrogates, `\ud83d\ude00`.
_JSON_CHARACTER_BYTES: Final = 12
_UTF8_CHARACTER_BYTES: Final = 4


def max_length(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES, *, quoted: bool = True) -> int | None:
    """An upper bound for the bytes of a value of this type, or None where it has none."""
    match type:
        case t.String():
            return _max_string_length(type, quoted=quoted)
        case t.Regex() | t.Temporal() | t.Uuid():
            (pattern,) = patterns.patterns_of(type)
            return _max_pattern_length(pattern, quoted=quoted)
        case t.Integer():
            return _max_integer_length(type)
        case t.Number():
            return _max_number_length(type)
        case t.Boolean():
            return len("false")
        case t.Null():
            return len("null")
        case t.Literal(value=value):
            return literal_bytes(value, quoted=quoted)
        case t.Array(item=item, max_items=maximum):
            longest = max_length(item, types)
            return None if maximum is None or longest is None else _row(maximum, longest)
        case t.Tuple(items=items):
            return _bracketed([max_length(item, types) for item in items])
        case t.Object(fields=fields):
            keys = [len(json.dumps(field.key, ensure_ascii=False).encode()) + 2 for field in fields]
            values = [max_length(field.type, types) for field in fields]
            return _bracketed([None if value is None else key + value for key, value in zip(keys, values, strict=True)])
        case t.Union(arms=arms):
            lengths = [max_length(arm, types, quoted=quoted) for arm in arms]
            return _together(lengths, lambda known: max(known, default=0))
        case t.Verbatim() | t.Map() | t.Named() | t.Schema() | t.Anything():
            return None
        case _:
            assert_never(type)


def default_max_tokens(
    type: t.Type,
    types: Mapping[str, t.Type] = NO_TYPES,
    *,
    quoted: bool = True,
    defaults: DefaultLimits = DEFAULT_LIMITS[0],
) -> int:
    """The token limit of a hole.

    The limit that the type sets; otherwise all that a closed type can need, or a default for an open one.
    """
    own = declared_max_tokens(type)
    if own is not None:
        return own
    usual = _usual_tokens(type, types, defaults, quoted=quoted)
    longest = max_length(type, types, quoted=quoted)
    if longest is None:
        return usual
    if is_finite(type, types):  # a value that the program spells out is never cut off
        return max(longest, 1)
    return max(min(longest, usual), 1)


def has_open_structure(type: t.Type) -> bool:
    """Returns True if the limit of a hole of this type depends on the defaults of lists."""
    match type:
        case t.Array() | t.Tuple() | t.Map() | t.Schema() | t.Anything():
            return type.max_tokens is None
        case t.Union(arms=arms, max_tokens=None):
            return any(map(has_open_structure, arms))
        case _:
            return isinstance(type, t.Object | t.Named)


def declared_max_tokens(type: t.Type) -> int | None:
    """The token limit that the type itself sets."""
    match type:
        case t.Boolean() | t.Null() | t.Literal() | t.Temporal() | t.Uuid() | t.Object() | t.Named():
            return None
        case _:
            return type.max_tokens


def is_finite(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> bool:
    """Returns True if the type is a closed list of values that a program spells out (literals, booleans, null)."""
    match type:
        case t.Boolean() | t.Null() | t.Literal():
            return True
        case t.Union(arms=arms):
            return all(is_finite(arm, types) for arm in arms)
        case t.Tuple(items=items):
            return all(is_finite(item, types) for item in items)
        case t.Object(fields=fields):
            return all(is_finite(field.type, types) for field in fields)
        case _:
            return False


def first_characters(
    type: t.Type, types: Mapping[str, t.Type] = NO_TYPES, *, quoted: bool = True
) -> frozenset[str] | None:
    """The characters that a value of this type can begin with; None for nearly any."""
    match type:
        case t.String() | t.Regex() | t.Verbatim():
            return frozenset('"') if quoted else None
        case t.Temporal():
            return frozenset('"') if quoted else frozenset("0123456789")
        case t.Uuid():
            return frozenset('"') if quoted else frozenset("0123456789abcdef")
        case t.Integer() | t.Number():
            low, _ = _ends(type)
            return frozenset("0123456789" if low is not None and low >= 0 else "-0123456789")
        case t.Boolean():
            return frozenset("tf")
        case t.Null():
            return frozenset("n")
        case t.Literal(value=value):
            return frozenset(spell(value, quoted=quoted)[:1])
        case t.Array() | t.Tuple():
            return frozenset("[")
        case t.Map() | t.Object():
            return frozenset("{")
        case t.Union() | t.Named():
            arms = arms_of(type, types)
            return _join(first_characters(arm, types, quoted=quoted) for arm in arms) if arms else None
        case t.Schema() | t.Anything():
            return None
        case _:
            assert_never(type)


def ends_by_itself(type: t.Type) -> bool:
    """Returns True if the text of a value shows where it ends, whatever follows."""
    match type:
        case t.Boolean() | t.Null() | t.Uuid() | t.Array() | t.Tuple() | t.Map() | t.Object():
            return True
        case t.Temporal(kind=kind):
            return kind is t.Moment.DATE
        case t.Literal(value=value):
            return isinstance(value, str)
        case t.Union(arms=arms) if all(isinstance(arm, t.Literal) and isinstance(arm.value, str) for arm in arms):
            texts = sorted(str(arm.value) for arm in arms if isinstance(arm, t.Literal))
            return not any(later.startswith(text) for text, later in pairwise(texts))
        case _:
            return False


def closed_texts(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES, *, quoted: bool = True) -> list[str]:
    """The texts of the literals, of true and false, and of null among the values of the type."""
    found: list[str] = []
    for arm in arms_of(type, types):
        if isinstance(arm, t.Boolean):
            found += ["true", "false"]
        elif isinstance(arm, t.Null):
            found.append("null")
        elif isinstance(arm, t.Literal):
            found.append(spell(arm.value, quoted=quoted))
    return found


# ── default token limits ──────────────────────────────────────────────────────────────────────────────────


def _usual_tokens(type: t.Type, types: Mapping[str, t.Type], defaults: DefaultLimits, *, quoted: bool) -> int:
    match type:
        case t.String(auto=t.AutoPolicy()):
            return defaults.structure
        case t.String():
            return _usual_string_tokens(type, defaults.string)
        case t.Regex(pattern=pattern):
            return _usual_string_tokens(t.String(pattern=pattern), defaults.string)
        case t.Verbatim():
            return defaults.string
        case t.Integer() | t.Number():
            return _usual_number_tokens(type)
        case t.Union(arms=arms):
            return max(default_max_tokens(arm, types, quoted=quoted, defaults=defaults) for arm in arms)
        case _:
            # Twice the bytes of the shortest value, so that a type that requires many items has room for them.
            return max(defaults.structure, min(2 * min_length(type), limits.MAX_HOLE_TOKENS))


# The longest address that Pydantic's `HttpUrl` accepts. It says nothing about the addresses in a text.
_LONGEST_URL: Final = 2_083


def _usual_string_tokens(type: t.String, usual: int) -> int:
    """A limit of characters raises the default once that many characters take more tokens, its quote included. It
    lowers the default to the bytes of that many characters, and a pattern to those of its longest text."""
    maximum = None if type.format == "url" and type.max_chars == _LONGEST_URL else type.max_chars
    asked = usual if maximum is None else max(usual, maximum // limits.CHARS_PER_TOKEN + 2)
    longest = longest_string(type)
    return max(asked if longest is None else min(asked, longest), min_length(type))


def longest_string(type: t.String) -> int | None:
    """The bytes of the longest string, quotes included, if nothing in it is escaped at length as `\\u0001` is."""
    longest = None if type.max_chars is None else type.max_chars * _UTF8_CHARACTER_BYTES + _QUOTES
    is_plain = type.pattern is not None and patterns.is_spelled_plainly(type.pattern)
    matching = _max_pattern_length(type.pattern, quoted=True) if type.pattern is not None and is_plain else None
    return _least(longest, matching)


def _usual_number_tokens(type: t.Integer | t.Number) -> int:
    """All that a number between two bounds can need; else a default, and some digits more than its bounds have."""
    longest = max_length(type)
    if longest is not None:
        return longest
    bounds = (type.minimum, type.maximum, type.exclusive_minimum, type.exclusive_maximum, type.multiple_of)
    digits = [len(format(Decimal(bound), "f")) for bound in bounds if bound is not None]
    return max(limits.DEFAULT_NUMBER_TOKENS, max(digits, default=0) + _DIGITS_BEYOND_BOUNDS)


_DIGITS_BEYOND_BOUNDS: Final = 4


# ── lengths ──────────────────────────────────────────────────────────────────────────────────────────────


def _max_string_length(type: t.String, *, quoted: bool) -> int | None:
    matching = (type.pattern, None if type.format is None else FORMATS[type.format].pattern)
    widths = (patterns.width(pattern) for pattern in matching if pattern is not None)
    maximum = _least(type.max_chars, *(width[1] for width in widths if width is not None))
    found = None if maximum is None else _quoted_bytes(maximum, quoted=quoted)
    plain = None if type.pattern is None else _max_pattern_length(type.pattern, quoted=quoted)
    return _least(found, plain)


def _max_pattern_length(pattern: str, *, quoted: bool) -> int | None:
    width = patterns.width(pattern)
    if width is None or width[1] is None:
        return None
    if patterns.is_spelled_plainly(pattern):
        return width[1] + (_QUOTES if quoted else 0)
    return _quoted_bytes(width[1], quoted=quoted)


def _quoted_bytes(characters: int, *, quoted: bool) -> int:
    return characters * _JSON_CHARACTER_BYTES + 2 if quoted else characters * _UTF8_CHARACTER_BYTES


def _max_integer_length(type: t.Integer) -> int | None:
    low, high = _ends(type)
    if low is None or high is None:
        return None
    return max(len(str(low)), len(str(high)))


def _max_number_length(type: t.Number) -> int | None:
    """Bounded only if a step limits the digits after the decimal point."""
    low, high = _ends(type)
    if low is None or high is None or type.multiple_of is None:
        return None
    exponent = type.multiple_of.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    whole = max(len(str(int(low))), len(str(int(high)))) + 1
    return whole + (0 if exponent >= 0 else 1 - exponent)


def _bracketed(parts: list[int | None]) -> int | None:
    inside = _together(parts, sum)
    return None if inside is None else inside + _row(len(parts), 0)


def _together(parts: list[int | None], count: Callable[[list[int]], int]) -> int | None:
    known = [part for part in parts if part is not None]
    return count(known) if len(known) == len(parts) else None


def _least(*bounds: int | None) -> int | None:
    return min((one for one in bounds if one is not None), default=None)


def _join(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    together: frozenset[str] = frozenset()
    for part in parts:
        if part is None:
            return None
        together |= part
    return together


# ── how many values there are ──────────────────────────────────────────────────────────────────────────

_MANY = 1_000  # the texts of a pattern are counted up to this number


def types_without_values(types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """The declared types that no finite value can have, in the order of their declaration."""
    with_value: set[str] = set()
    waiting = dict(types)
    while True:
        found = {name for name, type in waiting.items() if _has_value(type, with_value)}
        if not found:
            return tuple(waiting)
        with_value |= found
        waiting = {name: type for name, type in waiting.items() if name not in found}


def alternatives_of_themselves(types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """The declared types that are among their own alternatives, directly or through others."""
    needs = {name: [arm.name for arm in flat_arms(type) if isinstance(arm, t.Named)] for name, type in types.items()}
    on_circles = DependencyGraph(needs).on_circles
    return tuple(name for name in types if name in on_circles)


def _has_value(type: t.Type, with_value: set[str]) -> bool:
    match type:
        case t.Named(name=name):
            return name in with_value
        case t.Union(arms=arms):
            return any(_has_value(arm, with_value) for arm in arms)
        case t.Object(fields=fields):
            return all(_has_value(field.type, with_value) for field in fields)
        case t.Tuple(items=items):
            return all(_has_value(item, with_value) for item in items)
        case t.Array(item=item, min_items=minimum) | t.Map(value=item, min_items=minimum):
            return minimum == 0 or _has_value(item, with_value)
        case (
            t.String() | t.Integer() | t.Number() | t.Boolean() | t.Null() | t.Literal() | t.Regex() | t.Temporal()
            | t.Uuid() | t.Verbatim() | t.Schema() | t.Anything()
        ):  # fmt: skip
            return True
        case _:
            assert_never(type)


def count_values(type: t.Type) -> int | None:
    """An upper bound for the number of values, or None where it is not known to be small."""
    match type:
        case t.Boolean():
            return 2
        case t.Null() | t.Literal():
            return 1
        case t.Integer(minimum=int() as low, maximum=int() as high, multiple_of=step):
            return max(0, high // (step or 1) - -(-low // (step or 1)) + 1)
        case t.Regex(pattern=pattern):
            return _count_texts(pattern)
        case t.String(pattern=str() as pattern, min_chars=least, max_chars=most):
            return _count_texts(pattern, least, most)
        case t.Number(minimum=low, maximum=high) if low is not None and low == high:
            return 1
        case t.Union(arms=arms):
            return _together(list(map(count_values, arms)), sum)
        case t.Object(fields=fields):
            return _together([count_values(field.type) for field in fields], math.prod)
        case t.Tuple(items=items):
            return _together(list(map(count_values, items)), math.prod)
        case _:
            return None


def _count_texts(pattern: str, least: int = 0, most: int | None = None) -> int | None:
    try:
        texts = texts_of(parse_regex(pattern), fewer_than=_MANY)
    except RegexError:  # reported where the pattern is compiled
        return None
    return None if texts is None else sum(least <= len(text) and (most is None or len(text) <= most) for text in texts)


def has_numbers(type: t.Integer | t.Number) -> bool:
    """Returns True if a number within the bounds exists; with a step, whether a multiple of it does."""
    low, high = lower_bound(type), upper_bound(type)
    if low is None or high is None:
        return True
    if low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1])):
        return False
    if type.multiple_of is None and isinstance(type, t.Number):
        return True
    step = Fraction(type.multiple_of or 1)
    first, last = ceil(low[0] / step), floor(high[0] / step)
    first += low[1] and first * step == low[0]
    last -= high[1] and last * step == high[0]
    return first <= last


def lower_bound(type: t.Integer | t.Number) -> tuple[Fraction, bool] | None:
    """The lower bound, and whether the bound itself is excluded."""
    return max(_bounds(type.minimum, type.exclusive_minimum), default=None)


def upper_bound(type: t.Integer | t.Number) -> tuple[Fraction, bool] | None:
    """The upper bound, and whether the bound itself is excluded."""
    bounds = _bounds(type.maximum, type.exclusive_maximum)
    return min(bounds, key=lambda bound: (bound[0], not bound[1]), default=None)


def _bounds(included: int | Decimal | None, excluded: int | Decimal | None) -> list[tuple[Fraction, bool]]:
    given = ((included, False), (excluded, True))
    return [(Fraction(bound), is_excluded) for bound, is_excluded in given if bound is not None]


def leaves_choice(type: t.Type) -> bool:
    """Returns True if at least two values of the type are certain, so that the model has something to decide."""
    match type:
        case t.Literal() | t.Null() | t.Verbatim() | t.Regex() | t.Schema() | t.Named():
            return False
        case t.Boolean() | t.Temporal() | t.Uuid() | t.Anything():
            return True
        case t.String(max_chars=maximum, pattern=pattern, format=form):
            return maximum != 0 and pattern is None and form is None
        case t.Integer() | t.Number():
            return type.multiple_of is None and _is_wide(type)
        case t.Array(item=item, min_items=minimum, max_items=maximum):
            return maximum != 0 and (minimum != maximum or leaves_choice(item))
        case t.Map(key_pattern=pattern, max_items=maximum):
            return maximum != 0 and pattern is None
        case t.Tuple(items=items):
            return any(leaves_choice(item) for item in items)
        case t.Object(fields=fields):
            return any(leaves_choice(field.type) for field in fields)
        case t.Union(arms=arms):
            closed = {spell(arm.value, quoted=False) for arm in arms if isinstance(arm, t.Literal)}
            closed |= {"null" for arm in arms if isinstance(arm, t.Null)}
            return len(closed) > 1 or any(leaves_choice(arm) for arm in arms)


def _is_wide(type: t.Integer | t.Number) -> bool:
    """Returns True if at least two integers lie between the bounds."""
    lows = [bound for bound in (type.minimum, type.exclusive_minimum) if bound is not None]
    highs = [bound for bound in (type.maximum, type.exclusive_maximum) if bound is not None]
    return not lows or not highs or Decimal(min(highs)) - Decimal(max(lows)) >= 3
