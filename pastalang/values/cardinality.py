"""How many values a type has: none, one, a small number, or many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import assert_never

from pastalang.graphs import DependencyGraph
from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.regex_tree import texts_of
from pastalang.values.lengths import spell

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
    needs = {name: [arm.name for arm in _flat(type) if isinstance(arm, t.Named)] for name, type in types.items()}
    on_circles = DependencyGraph(needs).on_circles
    return tuple(name for name in types if name in on_circles)


def _flat(type: t.Type) -> Iterator[t.Type]:
    if isinstance(type, t.Union):
        for arm in type.arms:
            yield from _flat(arm)
    else:
        yield type


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
        case t.Array(item=item, min_items=least) | t.Map(value=item, min_items=least):
            return least == 0 or _has_value(item, with_value)
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
        case t.Regex(pattern=pattern) | t.String(pattern=str() as pattern):
            return _count_texts(pattern)
        case t.Number(minimum=low, maximum=high) if low is not None and low == high:
            return 1
        case t.Union(arms=arms):
            return _together(arms, sum)
        case t.Object(fields=fields):
            return _together([field.type for field in fields], math.prod)
        case t.Tuple(items=items):
            return _together(items, math.prod)
        case _:
            return None


def _together(parts: Iterable[t.Type], count: Callable[[list[int]], int]) -> int | None:
    counts = [count_values(part) for part in parts]
    known = [one for one in counts if one is not None]
    return count(known) if len(known) == len(counts) else None


def _count_texts(pattern: str) -> int | None:
    try:
        texts = texts_of(parse_regex(pattern), fewer_than=_MANY)
    except RegexError:  # reported where the pattern is compiled
        return None
    return None if texts is None else len(texts)


def has_numbers(type: t.Integer | t.Number) -> bool:
    """Whether a number within the bounds exists; with a step, whether a multiple of it does."""
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
    """Whether at least two values of the type are certain, so that the model has something to decide."""
    match type:
        case t.Literal() | t.Null() | t.Verbatim() | t.Regex() | t.Schema() | t.Named():
            return False
        case t.Boolean() | t.Temporal() | t.Uuid() | t.Anything():
            return True
        case t.String(max_chars=most, pattern=pattern, format=form):
            return most != 0 and pattern is None and form is None
        case t.Integer() | t.Number():
            return type.multiple_of is None and _is_wide(type)
        case t.Array(item=item, min_items=least, max_items=most):
            return most != 0 and (least != most or leaves_choice(item))
        case t.Map(key_pattern=pattern, max_items=most):
            return most != 0 and pattern is None
        case t.Tuple(items=items):
            return any(leaves_choice(item) for item in items)
        case t.Object(fields=fields):
            return any(leaves_choice(field.type) for field in fields)
        case t.Union(arms=arms):
            closed = {spell(arm.value, quoted=False) for arm in arms if isinstance(arm, t.Literal)}
            closed |= {"null" for arm in arms if isinstance(arm, t.Null)}
            return len(closed) > 1 or any(leaves_choice(arm) for arm in arms)


def _is_wide(type: t.Integer | t.Number) -> bool:
    """Whether at least two integers lie between the bounds."""
    lows = [bound for bound in (type.minimum, type.exclusive_minimum) if bound is not None]
    highs = [bound for bound in (type.maximum, type.exclusive_maximum) if bound is not None]
    return not lows or not highs or Decimal(min(highs)) - Decimal(max(lows)) >= 3
