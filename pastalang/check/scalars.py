"""Lowers strings, patterns and numbers to hole types, and reports limits that no value satisfies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from pastalang.check.arguments import Arguments, check_regex, exact, read_arguments, why_beyond
from pastalang.check.report import Report, listed
from pastalang.grammar import nodes
from pastalang.limits import MAX_HOLE_TOKENS, MAX_STRING_CHARS
from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.regex_tree import lengths
from pastalang.source import Span
from pastalang.values.formats import FORMATS

STRING_LIMITS = ("max", "min_chars", "max_chars", "pattern", "format", "stop")
STRING_HINTS = {
    "min": "a lower limit of a string counts characters: `min_chars`",
    "max_tokens": "the token limit is called `max`",
    "min_length": "did you mean `min_chars`?",
    "max_length": "did you mean `max_chars`? `max` counts tokens",
    "enum": 'write the values as a union: `"tv" | "phone"`',
}


def string(arguments: tuple[nodes.Argument, ...], report: Report) -> t.String:
    given = read_arguments(arguments, owner="`string`", allowed=STRING_LIMITS, report=report, hints=STRING_HINTS)
    found = t.String(
        max_tokens=given.integer("max", minimum=1, maximum=MAX_HOLE_TOKENS),
        min_chars=given.integer("min_chars", minimum=0, maximum=MAX_STRING_CHARS) or 0,
        max_chars=given.integer("max_chars", minimum=0, maximum=MAX_STRING_CHARS),
        pattern=given.regex("pattern"),
        format=_format(given, report),
        stop=given.strings("stop"),
    )
    _check_lengths(found, given, report)
    return found


def _format(given: Arguments, report: Report) -> str | None:
    name = given.string("format")
    if name is not None and name not in FORMATS:
        report.add(
            "wrong-argument",
            f'there is no format "{name}"',
            given.span_of("format"),
            help=report.suggest(name, FORMATS, otherwise=f"the formats are {listed(FORMATS)}"),
        )
        return None
    return name


def _check_lengths(found: t.String, given: Arguments, report: Report) -> None:
    if found.max_chars is not None and found.min_chars > found.max_chars:
        report.add(
            "contradictory-limits",
            f"a string of at least {found.min_chars} and at most {found.max_chars} characters cannot exist",
            given.span_of("min_chars").join(given.span_of("max_chars")),
            help="swap the two limits, or leave one out",
        )
        return
    for pattern, where in ((found.pattern, "pattern"), (_pattern_of(found.format), "format")):
        if pattern is not None:
            _check_pattern_lengths(found, pattern, where, given, report)


def _pattern_of(format: str | None) -> str | None:
    return None if format is None else FORMATS[format].pattern


def _check_pattern_lengths(found: t.String, pattern: str, where: str, given: Arguments, report: Report) -> None:
    try:
        bounds = lengths(parse_regex(pattern))
    except RegexError:
        return
    named = f"/{pattern}/" if where == "pattern" else f'the format "{found.format}"'
    if bounds is None:
        problem = f"no text matches {named}"
    elif found.max_chars is not None and bounds.shortest > found.max_chars:
        problem = f"{named} needs at least {bounds.shortest} characters, but only {found.max_chars} are allowed"
    elif bounds.longest is not None and bounds.longest < found.min_chars:
        problem = f"{named} has at most {bounds.longest} characters, but {found.min_chars} are required"
    else:
        return
    report.add("contradictory-limits", problem, given.span_of(where))


def regex(node: nodes.RegexType, report: Report) -> t.Regex | None:
    given = read_arguments(node.arguments, owner="a regular expression", allowed=("max",), report=report)
    if not check_regex(node.pattern, report):
        return None
    if lengths(parse_regex(node.pattern.pattern)) is None:
        report.add("contradictory-limits", f"no text matches /{node.pattern.pattern}/", node.pattern.span)
    return t.Regex(node.pattern.pattern, max_tokens=given.integer("max", minimum=1, maximum=MAX_HOLE_TOKENS))


LIMITS = ("min", "max", "above", "below", "multiple_of", "max_tokens")
HINTS = {
    "min_chars": "a number has no length; `max_tokens` limits its tokens",
    "max_chars": "a number has no length; `max_tokens` limits its tokens",
    "gt": "did you mean `above`?",
    "lt": "did you mean `below`?",
    "ge": "did you mean `min`?",
    "le": "did you mean `max`?",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    minimum: Decimal | None
    maximum: Decimal | None
    above: Decimal | None
    below: Decimal | None
    multiple_of: Decimal | None
    max_tokens: int | None

    @property
    def low(self) -> tuple[Fraction, bool] | None:
        """The lower bound, and whether it is itself excluded."""
        ends = [(Fraction(end), out) for end, out in ((self.minimum, False), (self.above, True)) if end is not None]
        return max(ends, default=None)

    @property
    def high(self) -> tuple[Fraction, bool] | None:
        ends = [(Fraction(end), out) for end, out in ((self.maximum, False), (self.below, True)) if end is not None]
        return min(ends, key=lambda end: (end[0], not end[1]), default=None)


def integer(arguments: tuple[nodes.Argument, ...], span: Span, report: Report) -> t.Integer:
    bounds = _read(arguments, "`integer`", "a whole number", _is_whole, report)
    _check(bounds, "whole number", Fraction(bounds.multiple_of or 1), span, report)
    return t.Integer(
        minimum=_int(bounds.minimum),
        maximum=_int(bounds.maximum),
        exclusive_minimum=_int(bounds.above),
        exclusive_maximum=_int(bounds.below),
        multiple_of=_int(bounds.multiple_of),
        max_tokens=bounds.max_tokens,
    )


def number(arguments: tuple[nodes.Argument, ...], span: Span, report: Report) -> t.Number:
    bounds = _read(arguments, "`number`", "a number", _is_any, report)
    step = None if bounds.multiple_of is None else Fraction(bounds.multiple_of)
    _check(bounds, "number", step, span, report)
    return t.Number(
        minimum=bounds.minimum,
        maximum=bounds.maximum,
        exclusive_minimum=bounds.above,
        exclusive_maximum=bounds.below,
        multiple_of=bounds.multiple_of,
        max_tokens=bounds.max_tokens,
    )


def _is_whole(value: Decimal) -> bool:
    return value == value.to_integral_value()


def _is_any(value: Decimal) -> bool:
    return True


def _int(value: Decimal | None) -> int | None:
    return None if value is None else int(value)


def _read(
    arguments: tuple[nodes.Argument, ...],
    owner: str,
    expected: str,
    accept: Callable[[Decimal], bool],
    report: Report,
) -> Bounds:
    given = read_arguments(arguments, owner=owner, allowed=LIMITS, unnamed=nodes.RangeValue, report=report, hints=HINTS)
    minimum, maximum = (given.number(name, accept=accept, expected=expected) for name in ("min", "max"))
    span = given.range()
    if span is not None:
        minimum = _end(span.low, "min", minimum, given, expected, report)
        maximum = _end(span.high, "max", maximum, given, expected, report)
    return Bounds(
        minimum=minimum,
        maximum=maximum,
        above=given.number("above", accept=accept, expected=expected),
        below=given.number("below", accept=accept, expected=expected),
        multiple_of=given.number(
            "multiple_of", accept=lambda value: value > 0 and accept(value), expected=f"{expected} above 0"
        ),
        max_tokens=given.integer("max_tokens", minimum=1, maximum=MAX_HOLE_TOKENS),
    )


def _end(
    end: nodes.NumberValue | None,
    name: str,
    named: Decimal | None,
    given: Arguments,
    expected: str,
    report: Report,
) -> Decimal | None:
    if end is None:
        return named
    if given.has(name):
        report.add(
            "wrong-argument",
            f"{given.owner} is given both a range and `{name}`",
            given.span_of(name),
            help=f"remove `{name}`: the range sets it",
        )
    value = exact(end)
    if value is None:
        report.add("too-large", f"a bound of the range of {given.owner} {why_beyond(end)}", end.span)
        return None
    if expected == "a whole number" and not _is_whole(value):
        report.add("wrong-argument", f"the bounds of the range of {given.owner} must be whole numbers", end.span)
        return None
    return value


def _check(bounds: Bounds, kind: str, step: Fraction | None, span: Span, report: Report) -> None:
    """Report limits with no number, or no multiple of `step`, between them."""
    if bounds.low is None or bounds.high is None:
        return
    (low, low_is_out), (high, high_is_out) = bounds.low, bounds.high
    is_empty = low > high or (low == high and (low_is_out or high_is_out))
    if not is_empty and step is not None:
        first, last = ceil(low / step), floor(high / step)
        first += low_is_out and first * step == low
        last -= high_is_out and last * step == high
        is_empty = first > last
    if is_empty:
        of = f" that is a multiple of {bounds.multiple_of}" if bounds.multiple_of is not None and low <= high else ""
        report.add(
            "contradictory-limits",
            f"no {kind}{of} is {_side(low, low_is_out, 'at least', 'above')}"
            f" and {_side(high, high_is_out, 'at most', 'below')}",
            span,
            help="swap the two limits" if low > high else "",
        )


def _side(end: Fraction, is_out: bool, closed: str, opened: str) -> str:
    shown = str(end.numerator) if end.denominator == 1 else f"{float(end):g}"
    return f"{opened if is_out else closed} {shown}"
