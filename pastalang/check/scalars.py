"""Lowers strings, patterns and numbers to hole types, and reports limits that no value satisfies."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from pastalang.check.arguments import OPTIONS, Arguments, check_regex, exact, read_arguments, why_beyond
from pastalang.check.report import Report, listed
from pastalang.grammar import nodes
from pastalang.limits import MAX_HOLE_TOKENS, MAX_STRING_CHARS
from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.regex_tree import lengths
from pastalang.source import Span
from pastalang.values.cardinality import has_numbers, lower_bound, upper_bound
from pastalang.values.describe import counted
from pastalang.values.formats import FORMATS
from pastalang.values.lengths import NO_TYPES
from pastalang.values.token_limits import QUOTE_TOKENS, limit_without_text
from pastalang.values.walk import arms_of

STRING_LIMITS = ("max", "min_chars", "max_chars", "pattern", "format", "stop")
_SAMPLED = "sampling follows the type: `string(max=8) with (temperature=0.7)`"
SAMPLING_HINTS = dict.fromkeys(OPTIONS, _SAMPLED)
STRING_HINTS = {
    **SAMPLING_HINTS,
    "min": "a lower limit of a string counts characters: `min_chars`",
    "max_tokens": "the token limit is called `max`",
    "min_length": "did you mean `min_chars`?",
    "max_length": "did you mean `max_chars`? `max` counts tokens",
    "minLength": "did you mean `min_chars`?",
    "maxLength": "did you mean `max_chars`? `max` counts tokens",
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
            f"a string of at least {found.min_chars} and at most {counted(found.max_chars, 'character')} cannot exist",
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
        allowed = f"only {found.max_chars} {'is' if found.max_chars == 1 else 'are'} allowed"
        problem = f"{named} needs at least {counted(bounds.shortest, 'character')}, but {allowed}"
    elif bounds.longest is not None and bounds.longest < found.min_chars:
        problem = f"{named} has at most {counted(bounds.longest, 'character')}, but {found.min_chars} are required"
    else:
        return
    report.add("contradictory-limits", problem, given.span_of(where))


def check_in_json(type: t.Type, span: Span, report: Report) -> None:
    """Report what has no meaning for a string in quotes."""
    for arm in arms_of(type, NO_TYPES):
        if isinstance(arm, t.String) and arm.stop:
            report.add(
                "wrong-argument",
                "`stop` has no meaning inside JSON, where a string ends at its closing quote",
                span,
                help="leave it out; `max` and `max_chars` limit the length",
            )
        if (most := limit_without_text(arm)) is not None:
            report.add(
                "contradictory-limits",
                f"`max={most}` leaves no room for text: in JSON, a string takes {QUOTE_TOKENS} tokens for its quotes",
                span,
                help=f"for {counted(most, 'token')} of text, write `max={most + QUOTE_TOKENS}`",
            )


POLICIES = tuple(policy.value for policy in t.AutoPolicy)
_TURN_ENDS = "a text with threads ends with the model's turn, or at its `max`"
AUTO_HINTS = {
    **dict.fromkeys(OPTIONS, "sampling follows the type: `auto(pasta, max=200) with (temperature=0.7)`"),
    **dict.fromkeys(("stop", "min_chars", "max_chars", "pattern", "format"), _TURN_ENDS),
    "max_tokens": "the token limit is called `max`",
}


def auto(arguments: tuple[nodes.Argument, ...], span: Span, report: Report) -> t.String:
    """A text in which the model opens threads."""
    quoted = [one for one in arguments if one.name is None and isinstance(one.value, nodes.StringValue)]
    for one in quoted:
        report.add("wrong-argument", "the policy of `auto` is a name, without quotes", one.span)
    given = read_arguments(
        tuple(one for one in arguments if one not in quoted), owner="`auto`", allowed=("max",),
        unnamed=nodes.PathValue, report=report, hints=AUTO_HINTS,
    )  # fmt: skip
    named, tags = given.path(), t.AutoPolicy.PASTA
    if named is not None:
        tags = policy(named.text, named.span, report)
    elif not quoted:
        report.add(
            "wrong-argument",
            "`auto` does not say which tags the model writes",
            span,
            help="name a policy: `auto(pasta, max=200)` or `auto(apar, max=200)`",
        )
    return t.String(max_tokens=given.integer("max", minimum=1, maximum=MAX_HOLE_TOKENS), auto=tags)


def policy(name: str, span: Span, report: Report) -> t.AutoPolicy:
    if name in POLICIES:
        return t.AutoPolicy(name)
    advice = report.suggest(name, POLICIES, otherwise=f"the policies are {listed(POLICIES)}")
    report.add("unknown-policy", f"there is no policy `{name}`", span, help=advice)
    return t.AutoPolicy.PASTA


def regex(node: nodes.RegexType, report: Report) -> t.Regex | None:
    given = read_arguments(node.arguments, owner="a regular expression", allowed=("max",), report=report)
    if not check_regex(node.pattern, report):
        return None
    if lengths(parse_regex(node.pattern.pattern)) is None:
        report.add("contradictory-limits", f"no text matches /{node.pattern.pattern}/", node.pattern.span)
    return t.Regex(node.pattern.pattern, max_tokens=given.integer("max", minimum=1, maximum=MAX_HOLE_TOKENS))


LIMITS = ("min", "max", "above", "below", "multiple_of", "max_tokens")
HINTS = {
    **SAMPLING_HINTS,
    "min_chars": "a number has no length; `max_tokens` limits its tokens",
    "max_chars": "a number has no length; `max_tokens` limits its tokens",
    "gt": "did you mean `above`?",
    "lt": "did you mean `below`?",
    "ge": "did you mean `min`?",
    "le": "did you mean `max`?",
    "minimum": "did you mean `min`?",
    "maximum": "did you mean `max`?",
    "exclusiveMinimum": "did you mean `above`?",
    "exclusiveMaximum": "did you mean `below`?",
    "multipleOf": "did you mean `multiple_of`?",
}


def integer(arguments: tuple[nodes.Argument, ...], span: Span, report: Report) -> t.Integer:
    given = _read_number(arguments, "`integer`", "a whole number", _is_whole, report)
    found = t.Integer(
        minimum=_int(given.minimum),
        maximum=_int(given.maximum),
        exclusive_minimum=_int(given.exclusive_minimum),
        exclusive_maximum=_int(given.exclusive_maximum),
        multiple_of=_int(given.multiple_of),
        max_tokens=given.max_tokens,
    )
    _check_bounds(found, "whole number", span, report)
    return found


def number(arguments: tuple[nodes.Argument, ...], span: Span, report: Report) -> t.Number:
    found = _read_number(arguments, "`number`", "a number", _is_any, report)
    _check_bounds(found, "number", span, report)
    return found


def _is_whole(value: Decimal) -> bool:
    return value == value.to_integral_value()


def _is_any(value: Decimal) -> bool:
    return True


def _int(value: Decimal | None) -> int | None:
    return None if value is None else int(value)


def _read_number(
    arguments: tuple[nodes.Argument, ...],
    owner: str,
    expected: str,
    accept: Callable[[Decimal], bool],
    report: Report,
) -> t.Number:
    given = read_arguments(arguments, owner=owner, allowed=LIMITS, unnamed=nodes.RangeValue, report=report, hints=HINTS)
    minimum, maximum = (given.number(name, accept=accept, expected=expected) for name in ("min", "max"))
    span = given.range()
    if span is not None:
        minimum = _end(span.low, "min", minimum, given, expected, report)
        maximum = _end(span.high, "max", maximum, given, expected, report)
    return t.Number(
        minimum=minimum,
        maximum=maximum,
        exclusive_minimum=given.number("above", accept=accept, expected=expected),
        exclusive_maximum=given.number("below", accept=accept, expected=expected),
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


def _check_bounds(type: t.Integer | t.Number, kind: str, span: Span, report: Report) -> None:
    low, high = lower_bound(type), upper_bound(type)
    if low is None or high is None or has_numbers(type):
        return
    is_swapped = low[0] > high[0]
    multiple = f" that is a multiple of {type.multiple_of}" if type.multiple_of is not None and not is_swapped else ""
    report.add(
        "contradictory-limits",
        f"no {kind}{multiple} is {_side(*low, 'at least', 'above')} and {_side(*high, 'at most', 'below')}",
        span,
        help="swap the two limits" if is_swapped else "",
    )


def _side(end: Fraction, is_out: bool, closed: str, opened: str) -> str:
    shown = str(end.numerator) if end.denominator == 1 else f"{float(end):g}"
    return f"{opened if is_out else closed} {shown}"
