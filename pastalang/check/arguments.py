"""The arguments of types, tags and `with`: what each takes, and one reader with all messages.

A `Signature` names the parameters of an owner. `read_arguments` gives their values, or reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Any, Protocol, assert_never

from pastalang.check.report import Report, listed
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.limits import MAX_HOLE_TOKENS, MAX_ITEMS, MAX_NUMBER_DIGITS
from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.types import DRAFT_WORDS, ON_TRUNCATED, SAMPLING_BOUNDS, Sampling
from pastalang.source import Span
from pastalang.values.describe import describe
from pastalang.values.fit import find_mismatches
from pastalang.values.json import JsonValue, write_json
from pastalang.values.one_hole import may_be_null
from pastalang.values.text import has_threads

KINDS_OF_VALUES = {
    nodes.StringValue: "a text",
    nodes.NumberValue: "a number",
    nodes.BooleanValue: "true or false",
    nodes.NullValue: "null",
    nodes.RegexValue: "a regular expression",
    nodes.ListValue: "a list",
    nodes.RecordValue: "a record",
    nodes.RangeValue: "a range",
    nodes.PathValue: "a name",
}


# ── kinds of parameters ──────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class WrongValue(Exception):
    """Why an argument is refused: a predicate of which it is the subject, or a whole headline."""

    predicate: str = ""
    _: KW_ONLY
    headline: str = ""
    code: str = "wrong-argument"
    help: str = ""  # the advice, unless one of `known` is close to `misspelt`
    misspelt: str = ""
    known: Collection[str] = ()
    span: Span | None = None  # a part of the value
    is_too_large: bool = False


class Parameter(Protocol):
    def read(self, value: nodes.Value) -> object:
        """The value of an argument. Raises `WrongValue`."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds, as an `int`."""

    minimum: int
    maximum: int

    def read(self, value: nodes.Value) -> int:
        if not isinstance(value, nodes.NumberValue):
            raise _must_be("a whole number")
        number = whole(value)
        is_beyond = why_beyond(value) is not None
        if number is None and not is_beyond:
            raise _must_be("a whole number")
        if number is None or not self.minimum <= number <= self.maximum:
            bounds = f"a whole number from {self.minimum:,} to {self.maximum:,}"
            raise _must_be(bounds, is_too_large=number is None or number > self.maximum)
        return number


@dataclass(frozen=True, slots=True)
class Exact:
    """A number, as a `Decimal`."""

    accepts: Callable[[Decimal], bool]
    expected: str

    def read(self, value: nodes.Value) -> Decimal:
        if not isinstance(value, nodes.NumberValue):
            raise _must_be(self.expected)
        number = exact(value)
        if number is None:
            raise WrongValue(why_beyond(value) or "", code="too-large")
        if not self.accepts(number):
            raise _must_be(self.expected)
        return number


@dataclass(frozen=True, slots=True)
class Rate:
    """A sampling option that is a number, as a `float`."""

    option: str

    def read(self, value: nodes.Value) -> float:
        bounds = SAMPLING_BOUNDS[self.option]
        return float(Exact(bounds.accepts, bounds.expected).read(value))


@dataclass(frozen=True, slots=True)
class Word:
    """One of the words. `unknown` is the headline for another one; `called` begins the advice that lists them."""

    words: Collection[str]
    unknown: str
    called: str

    def read(self, value: nodes.Value) -> str:
        word = _text(value)
        if word not in self.words:
            advice = f"{self.called} {listed(self.words)}"
            raise WrongValue(headline=self.unknown.format(word), help=advice, misspelt=word, known=self.words)
        return word


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two or three texts, which a message can name all, or a count of at least 1 if `or_count`."""

    words: Sequence[str]
    or_count: bool = False

    def read(self, value: nodes.Value) -> str | int:
        quoted = ", ".join(f'"{word}"' for word in self.words)
        if not self.or_count:
            word = _text(value)
            if word in self.words:
                return word
            raise _must_be(f"one of {quoted}")
        count = whole(value) if isinstance(value, nodes.NumberValue) else None
        if count is not None and count >= 1:
            return count
        if isinstance(value, nodes.StringValue) and value.text in self.words:
            return value.text
        raise _must_be(f"{quoted} or a whole number of at least 1")


@dataclass(frozen=True, slots=True)
class Texts:
    """A text or a list of texts, none of them empty, as a tuple."""

    def read(self, value: nodes.Value) -> tuple[str, ...]:
        values = value.items if isinstance(value, nodes.ListValue) else (value,)
        texts = tuple(item.text for item in values if isinstance(item, nodes.StringValue) and item.text)
        if len(texts) != len(values) or not texts:
            raise _must_be("a text in quotes that is not empty, or a list of such texts")
        return texts


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, value: nodes.Value) -> bool:
        if not isinstance(value, nodes.BooleanValue):
            raise _must_be("true or false")
        return value.value


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression that can be enforced, as the text between its slashes."""

    def read(self, value: nodes.Value) -> str:
        if not isinstance(value, nodes.RegexValue):
            raise _must_be("a regular expression between slashes, `/[a-z]+/`")
        try:
            parse_regex(value.pattern)
        except RegexError as problem:
            shown = value.pattern if len(value.pattern) <= 40 else value.pattern[:37] + "..."
            headline = f"the regular expression /{shown}/ cannot be enforced: {problem.message}"
            where = _span_inside(value, problem)
            raise WrongValue(headline=headline, code="unsupported-regex", span=where, help=problem.help) from None
        return value.pattern


def _must_be(expected: str, *, is_too_large: bool = False) -> WrongValue:
    return WrongValue(f"must be {expected}", is_too_large=is_too_large)


def _text(value: nodes.Value) -> str:
    if not isinstance(value, nodes.StringValue):
        raise _must_be("a text in quotes")
    return value.text


def _span_inside(value: nodes.RegexValue, problem: RegexError) -> Span:
    """The part of the pattern that causes the problem; the whole pattern if escapes shift its characters."""
    begin = value.span.start + 1
    if value.span.end - value.span.start != len(value.pattern) + 2:
        return value.span
    start = min(begin + problem.offset, value.span.end - 1)
    return Span(start, max(start, min(start + problem.length, value.span.end - 1)))


# ── signatures and their reader ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Signature:
    """What an owner takes. One value may have no name: a path, a text, or a range, which sets `min` and `max`."""

    owner: str  # in messages: "`string`", "an array"; "with" for sampling
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    unnamed: tuple[type[nodes.Value], ...] = ()
    ends: str = ""  # what the ends of a range are, in messages
    hints: Mapping[str, str] = field(default_factory=dict)  # advice for names that other languages use

    def naming(self, name: str) -> str:
        """The argument as the subject of a sentence."""
        return f"`{name}`" if self.owner == "with" else f"`{name}` of {self.owner}"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values that were given and are right, by name, each of the kind that its parameter reads.

    The node of a value without a name is under "".
    """

    signature: Signature
    by_name: Mapping[str, nodes.Argument]
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The value, or None."""
        return self.values.get(name)

    def __contains__(self, name: str) -> bool:
        """Returns True if the argument is given, right or wrong."""
        return name in self.by_name

    def span_of(self, name: str) -> Span:
        return self.by_name[name].span


def read_arguments(given: tuple[nodes.Argument, ...], signature: Signature, report: Report) -> Arguments:
    by_name: dict[str, nodes.Argument] = {}
    for argument in given:
        if _is_expected(argument, by_name, signature, report):
            by_name[argument.name.text if argument.name is not None else ""] = argument
    values: dict[str, Any] = {}
    for name, argument in by_name.items():
        if name:
            parameter, subject = signature.parameters[name], signature.naming(name)
            values[name] = read_value(argument.value, parameter, subject, report)
        elif isinstance(argument.value, nodes.RangeValue):
            values[name] = argument.value
            values.update(_read_range(argument.value, by_name, signature, report))
        else:
            values[name] = argument.value
    return Arguments(signature, by_name, {name: value for name, value in values.items() if value is not None})


def read_value(
    value: nodes.Value,
    parameter: Parameter,
    subject: str,
    report: Report,
    *,
    too_large: str = "wrong-argument",
) -> Any:
    """The value, or None where it is wrong. `too_large` is the code for a number above a limit."""
    try:
        return parameter.read(value)
    except WrongValue as wrong:
        is_kind_wrong = wrong.predicate.startswith("must be") and not isinstance(value, nodes.NumberValue)
        report.add(
            too_large if wrong.is_too_large else wrong.code,
            wrong.headline or f"{subject} {wrong.predicate}",
            wrong.span or value.span,
            message=f"this is {KINDS_OF_VALUES[type(value)]}" if is_kind_wrong else "",
            help=report.suggest(wrong.misspelt, wrong.known, otherwise=wrong.help) if wrong.known else wrong.help,
        )
        return None


def _is_expected(
    argument: nodes.Argument, by_name: Mapping[str, nodes.Argument], signature: Signature, report: Report
) -> bool:
    """Returns True if the signature has this argument and it comes for the first time."""
    name = argument.name.text if argument.name is not None else ""
    if name in by_name:
        report.add(
            "wrong-argument",
            f"{f'`{name}`' if name else 'the unnamed argument'} is given to {signature.owner} twice",
            argument.span,
            related=[Label(by_name[name].span, "first given here")],
        )
    elif argument.name is None and not isinstance(argument.value, signature.unnamed):
        _report_unnamed(argument, signature, report)
    elif argument.name is not None and name not in signature.parameters:
        _report_unknown(argument.name, signature, report)
    else:
        return True
    return False


def _report_unknown(name: nodes.Name, signature: Signature, report: Report) -> None:
    known, owner = tuple(signature.parameters), signature.owner
    report.add(
        "wrong-argument",
        f"unknown sampling option `{name.text}`" if owner == "with" else f"unknown argument `{name.text}` of {owner}",
        name.span,
        help=signature.hints.get(name.text)
        or report.suggest(name.text, known, otherwise=f"it takes {listed(known)}" if known else ""),
    )


def _report_unnamed(argument: nodes.Argument, signature: Signature, report: Report) -> None:
    owner, known = signature.owner, tuple(signature.parameters)
    advice = f"{owner} takes {listed(known)}" if known else "remove it"
    if isinstance(argument.value, nodes.NumberValue) and "max" in known:
        number = argument.value.text
        advice = f"write `max={number}`"
        advice += f", or the range `0..{number}`" if nodes.RangeValue in signature.unnamed else ""
    report.add(
        "wrong-argument",
        f"an argument of {owner} needs a name" if known else f"{owner} takes no arguments",
        argument.span,
        help=advice,
    )


def _read_range(
    value: nodes.RangeValue, by_name: Mapping[str, nodes.Argument], signature: Signature, report: Report
) -> dict[str, Any]:
    """The ends of a range as `min` and `max`."""
    ends: dict[str, Any] = {}
    for name, end in (("min", value.low), ("max", value.high)):
        if end is None:
            continue
        if name in by_name:
            report.add(
                "wrong-argument",
                f"{signature.owner} is given both a range and `{name}`",
                by_name[name].span,
                help=f"remove `{name}`: the range sets it",
            )
        subject = f"{signature.ends} of {signature.owner}"
        ends[name] = read_value(end, signature.parameters[name], subject, report, too_large="too-large")
    return ends


# ── sampling, and what several owners take ───────────────────────────────────────────────────────────────

TOKENS = Whole(1, MAX_HOLE_TOKENS)
ITEMS = Whole(0, MAX_ITEMS)
SAMPLING = Signature(
    "with",
    {
        "temperature": Rate("temperature"),
        "top_k": Whole(SAMPLING_BOUNDS["top_k"].low, SAMPLING_BOUNDS["top_k"].high),
        "top_p": Rate("top_p"),
        "min_p": Rate("min_p"),
        "repetition_penalty": Rate("repetition_penalty"),
        "on_truncated": Choice(ON_TRUNCATED),
        "drafts": Choice(DRAFT_WORDS, or_count=True),
    },
    hints={
        "max": "`max` is a limit of the type: `string(max=40)`",
        "max_tokens": "the token limit belongs to the type: `string(max=40)`",
        "stop": '`stop` belongs to the type: `string(stop=":")`',
        "seed": "the seed belongs to the run, not to the program: `pasta run --seed 7`",
    },
)


def sampling_hints(example: str) -> dict[str, str]:
    """Advice for sampling options among the arguments of a type."""
    return dict.fromkeys(SAMPLING.parameters, f"sampling follows the type: `{example} with (temperature=0.7)`")


def check_sampling(arguments: tuple[nodes.Argument, ...], report: Report) -> Sampling:
    return Sampling(**read_arguments(arguments, SAMPLING, report).values)


def report_null(sampling: Sampling | None, type: t.Type, arguments: tuple[nodes.Argument, ...], report: Report) -> None:
    """Report a value that is to become null where its type does not have it. Objects pass it on to their fields."""
    is_one_value = not isinstance(type, t.Object | t.Named)
    if sampling is None or sampling.on_truncated != "null" or not is_one_value:
        return
    span = arguments[0].span.join(arguments[-1].span)
    if has_threads(type):
        report.add(
            "wrong-argument",
            "a text with threads cannot become null once it is written",
            span,
            help='`on_truncated="raise"` makes an error of a text that its limit cuts',
        )
    elif not may_be_null(type):
        report.add(
            "wrong-argument",
            f'{describe(type)} cannot become null, so `on_truncated="null"` means nothing here',
            span,
            help="let the type have null: `... | null`",
        )


# ── numbers and constants as exact values ────────────────────────────────────────────────────────────────


def is_constant(value: nodes.Value) -> bool:
    """Returns True if the value is plain data, unlike a name, a range or a regular expression."""
    match value:
        case nodes.ListValue(items=items):
            return all(map(is_constant, items))
        case nodes.RecordValue(entries=entries):
            keys = [key.text for key, _ in entries]
            return len(set(keys)) == len(keys) and all(is_constant(item) for _, item in entries)
        case nodes.NumberValue():
            return literal_number(value) is not None
        case nodes.StringValue() | nodes.BooleanValue() | nodes.NullValue():
            return True
        case nodes.RegexValue() | nodes.RangeValue() | nodes.PathValue():
            return False
        case _:
            assert_never(value)


def constant(value: nodes.Value) -> JsonValue:
    """The JSON value of a constant. The caller has asked `is_constant` first."""
    match value:
        case nodes.StringValue(text=text):
            return text
        case nodes.NumberValue():
            return literal_number(value)
        case nodes.BooleanValue(value=flag):
            return flag
        case nodes.NullValue():
            return None
        case nodes.ListValue(items=items):
            return [constant(item) for item in items]
        case nodes.RecordValue(entries=entries):
            return {key.text: constant(item) for key, item in entries}
        case _:
            raise AssertionError("not a constant")


def exact(number: nodes.NumberValue) -> Decimal | None:
    """The value, or None where its length or its exponent exceeds the limit."""
    if len(number.text) > MAX_NUMBER_DIGITS:
        return None
    value = Decimal(number.text)
    if not value:
        return Decimal(0)
    return value if abs(value.adjusted()) <= MAX_NUMBER_DIGITS else None


def whole(number: nodes.NumberValue) -> int | None:
    """The value as an integer (`1e3` and `2.0` are integers), or None."""
    value = exact(number)
    return int(value) if value is not None and value == value.to_integral_value() else None


def literal_number(number: nodes.NumberValue) -> int | Decimal | None:
    """An integer if it is written as one, otherwise an exact decimal; None where it exceeds the limit."""
    value = exact(number)
    if value is None:
        return None
    return int(value) if number.text.lstrip("-").isdigit() else value


def why_beyond(number: nodes.NumberValue) -> str | None:
    """Why a number has no exact value, as the end of a sentence; None where it has one."""
    if exact(number) is not None:
        return None
    if len(number.text) > MAX_NUMBER_DIGITS:
        return f"has more than {MAX_NUMBER_DIGITS} characters"
    if Decimal(number.text).adjusted() < 0:
        return f"is closer to 0 than 1e-{MAX_NUMBER_DIGITS}, the smallest number that can be enforced"
    return f"exceeds 1e{MAX_NUMBER_DIGITS}, the largest number that can be enforced"


def check_default(
    value: nodes.Value, type: t.Type, types: Mapping[str, t.Type], report: Report, *, what: str
) -> t.Default | None:
    if not is_constant(value):
        report.add(
            "wrong-default",
            f"{what} is not a constant",
            value.span,
            help="write a text, a number, true, false, null, or a list or record of these",
        )
        return None
    default = constant(value)
    mismatches = find_mismatches(type, default, types)
    if mismatches:
        report.add("wrong-default", f"{what} does not fit its type", value.span, message=str(mismatches[0]))
    return t.Default(write_json(default))
