"""Reads the arguments, numbers and constants of a program as exact values, and reports those that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar, assert_never

from pastalang.check.report import Report, listed
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.grammar.nodes import NumberValue
from pastalang.limits import MAX_NUMBER_DIGITS
from pastalang.program import types as t
from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.sampling_bounds import SAMPLING_BOUNDS
from pastalang.program.types import DRAFT_WORDS, ON_TRUNCATED, Sampling
from pastalang.source import Span
from pastalang.values.answer_text import has_threads
from pastalang.values.describe import describe
from pastalang.values.json import JsonValue
from pastalang.values.token_limits import may_be_null

W = TypeVar("W", bound=str)

OPTIONS = (*SAMPLING_BOUNDS, "on_truncated", "drafts")

OPTION_HINTS = {
    "max": "`max` is a limit of the type: `string(max=40)`",
    "max_tokens": "the token limit belongs to the type: `string(max=40)`",
    "stop": '`stop` belongs to the type: `string(stop=":")`',
    "seed": "the seed belongs to the run, not to the program: `pasta run --seed 7`",
}

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


def read_arguments(
    arguments: tuple[nodes.Argument, ...],
    *,
    owner: str,
    allowed: tuple[str, ...],
    report: Report,
    unnamed: type[nodes.RangeValue] | type[nodes.PathValue] | type[nodes.StringValue] | None = None,
    hints: dict[str, str] | None = None,
) -> Arguments:
    """Collect the arguments by name. One argument may have no name, if it is of the kind `unnamed`."""
    found: dict[str, nodes.Argument] = {}
    for argument in arguments:
        name = argument.name.text if argument.name is not None else ""
        if name in found:
            report.add(
                "wrong-argument",
                f"{f'`{name}`' if name else 'the unnamed argument'} is given to {owner} twice",
                argument.span,
                related=[Label(found[name].span, "first given here")],
            )
        elif argument.name is None and (unnamed is None or not isinstance(argument.value, unnamed)):
            _report_unnamed(argument, owner, allowed, unnamed, report)
        elif argument.name is not None and name not in allowed:
            hint = (hints or {}).get(name)
            report.add(
                "wrong-argument",
                f"{owner} has no limit `{name}`" if owner != "with" else f"there is no sampling option `{name}`",
                argument.name.span,
                help=hint or report.suggest(name, allowed, otherwise=f"it takes {listed(allowed)}" if allowed else ""),
            )
        else:
            found[name] = argument
    return Arguments(owner, found, report)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments given to one owner, by name; the unnamed argument is under ""."""

    owner: str  # "`string`", "an array", "with": the owner's name in messages
    by_name: dict[str, nodes.Argument]
    report: Report

    def has(self, name: str) -> bool:
        return name in self.by_name

    def span_of(self, name: str) -> Span:
        return self.by_name[name].span

    def integer(self, name: str, *, minimum: int | None = None, maximum: int | None = None) -> int | None:
        argument = self.by_name.get(name)
        if argument is None:
            return None
        value = whole(argument.value) if isinstance(argument.value, nodes.NumberValue) else None
        if value is None:
            is_beyond = isinstance(argument.value, nodes.NumberValue) and why_beyond(argument.value) is not None
            self._wrong(argument, name, _between(minimum, maximum) if is_beyond else "a whole number")
            return None
        if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            self._wrong(argument, name, _between(minimum, maximum))
            return None
        return value

    def number(self, name: str, *, accept: Callable[[Decimal], bool], expected: str) -> Decimal | None:
        argument = self.by_name.get(name)
        if argument is None:
            return None
        given = argument.value if isinstance(argument.value, nodes.NumberValue) else None
        if given is not None and (beyond := why_beyond(given)) is not None:
            owner = "" if self.owner == "with" else f" of {self.owner}"
            self.report.add("too-large", f"`{name}`{owner} {beyond}", given.span)
            return None
        value = None if given is None else exact(given)
        if value is None or not accept(value):
            self._wrong(argument, name, expected)
            return None
        return value

    def string(self, name: str) -> str | None:
        argument = self.by_name.get(name)
        if argument is None:
            return None
        if not isinstance(argument.value, nodes.StringValue):
            self._wrong(argument, name, "a text in quotes")
            return None
        return argument.value.text

    def word(self, name: str, words: Sequence[W]) -> W | None:
        given = self.string(name)
        if given is None or given in words:
            return next((word for word in words if word == given), None)
        self._wrong(self.by_name[name], name, f"one of {', '.join(map(repr, words))}".replace("'", '"'))
        return None

    def count_or_word(self, name: str, words: Sequence[W]) -> int | W | None:
        argument = self.by_name.get(name)
        if argument is None:
            return None
        count = whole(argument.value) if isinstance(argument.value, nodes.NumberValue) else None
        if count is not None and count >= 1:
            return count
        text = argument.value.text if isinstance(argument.value, nodes.StringValue) else None
        if text not in words:
            listed_words = ", ".join(f'"{word}"' for word in words)
            self._wrong(argument, name, f"{listed_words} or a whole number of at least 1")
        return next((word for word in words if word == text), None)

    def strings(self, name: str) -> tuple[str, ...]:
        """An argument that is a text or a list of texts, none of them empty."""
        argument = self.by_name.get(name)
        if argument is None:
            return ()
        values = argument.value.items if isinstance(argument.value, nodes.ListValue) else (argument.value,)
        texts = tuple(value.text for value in values if isinstance(value, nodes.StringValue) and value.text)
        if len(texts) != len(values) or not texts:
            self._wrong(argument, name, "a text in quotes that is not empty, or a list of such texts")
            return ()
        return texts

    def boolean(self, name: str) -> bool:
        argument = self.by_name.get(name)
        if argument is None:
            return False
        if not isinstance(argument.value, nodes.BooleanValue):
            self._wrong(argument, name, "true or false")
            return False
        return argument.value.value

    def regex(self, name: str) -> str | None:
        argument = self.by_name.get(name)
        if argument is None:
            return None
        if not isinstance(argument.value, nodes.RegexValue):
            self._wrong(argument, name, "a regular expression between slashes, `/[a-z]+/`")
            return None
        return argument.value.pattern if check_regex(argument.value, self.report) else None

    def path(self) -> nodes.PathValue | None:
        """The unnamed argument, if it is a name: `verbatim(title)`."""
        argument = self.by_name.get("")
        return argument.value if argument is not None and isinstance(argument.value, nodes.PathValue) else None

    def range(self) -> nodes.RangeValue | None:
        argument = self.by_name.get("")
        return argument.value if argument is not None and isinstance(argument.value, nodes.RangeValue) else None

    def _wrong(self, argument: nodes.Argument, name: str, expected: str) -> None:
        self.report.add(
            "wrong-argument",
            f"`{name}` must be {expected}" if self.owner == "with" else f"`{name}` of {self.owner} must be {expected}",
            argument.value.span,
            message=f"this is {KINDS_OF_VALUES[type(argument.value)]}"
            if not isinstance(argument.value, nodes.NumberValue)
            else "",
        )


def check_sampling(arguments: tuple[nodes.Argument, ...], report: Report) -> Sampling:
    given = read_arguments(arguments, owner="with", allowed=OPTIONS, report=report, hints=OPTION_HINTS)
    top_k = SAMPLING_BOUNDS["top_k"]
    return Sampling(
        temperature=_number(given, "temperature"),
        top_k=given.integer("top_k", minimum=top_k.low, maximum=top_k.high),
        top_p=_number(given, "top_p"),
        min_p=_number(given, "min_p"),
        repetition_penalty=_number(given, "repetition_penalty"),
        on_truncated=given.word("on_truncated", ON_TRUNCATED),
        drafts=given.count_or_word("drafts", DRAFT_WORDS),
    )


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


def check_regex(value: nodes.RegexValue, report: Report) -> bool:
    """Whether the pattern can be enforced. If not, a finding points to the part that cannot."""
    try:
        parse_regex(value.pattern)
    except RegexError as problem:
        report.add(
            "unsupported-regex",
            f"the regular expression /{_shortened(value.pattern)}/ cannot be enforced: {problem.message}",
            _span_inside(value, problem),
            help=problem.help,
        )
        return False
    return True


def is_constant(value: nodes.Value) -> bool:
    """Whether the value is plain data, unlike a name, a range or a regular expression."""
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


def exact(number: NumberValue) -> Decimal | None:
    """The value, or None where its length or its exponent exceeds the limit."""
    if len(number.text) > MAX_NUMBER_DIGITS:
        return None
    value = Decimal(number.text)
    if not value:
        return Decimal(0)
    return value if abs(value.adjusted()) <= MAX_NUMBER_DIGITS else None


def whole(number: NumberValue) -> int | None:
    """The value as an integer (`1e3` and `2.0` are integers), or None."""
    value = exact(number)
    return int(value) if value is not None and value == value.to_integral_value() else None


def literal_number(number: NumberValue) -> int | Decimal | None:
    """An integer if it is written as one, otherwise an exact decimal; None where it exceeds the limit."""
    value = exact(number)
    if value is None:
        return None
    return int(value) if number.text.lstrip("-").isdigit() else value


def why_beyond(number: NumberValue) -> str | None:
    """Why a number has no exact value, as the end of a sentence; None where it has one."""
    if exact(number) is not None:
        return None
    if len(number.text) > MAX_NUMBER_DIGITS:
        return f"has more than {MAX_NUMBER_DIGITS} characters"
    if Decimal(number.text).adjusted() < 0:
        return f"is closer to 0 than 1e-{MAX_NUMBER_DIGITS}, the smallest number that can be enforced"
    return f"exceeds 1e{MAX_NUMBER_DIGITS}, the largest number that can be enforced"


def _report_unnamed(
    argument: nodes.Argument,
    owner: str,
    allowed: tuple[str, ...],
    unnamed: type[nodes.Value] | None,
    report: Report,
) -> None:
    advice = f"{owner} takes {listed(allowed)}" if allowed else f"{owner} takes no arguments"
    if isinstance(argument.value, nodes.NumberValue) and "max" in allowed:
        advice = f"write `max={argument.value.text}`" + (
            f", or the range `0..{argument.value.text}`" if unnamed is nodes.RangeValue else ""
        )
    report.add(
        "wrong-argument",
        f"{owner} does not take {KINDS_OF_VALUES[type(argument.value)]} without a name",
        argument.span,
        help=advice,
    )


def _span_inside(value: nodes.RegexValue, problem: RegexError) -> Span:
    """The part of the pattern that causes the problem; the whole pattern if escapes shift its characters."""
    begin = value.span.start + 1
    if value.span.end - value.span.start != len(value.pattern) + 2:
        return value.span
    start = min(begin + problem.offset, value.span.end - 1)
    return Span(start, max(start, min(start + problem.length, value.span.end - 1)))


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _between(minimum: int | None, maximum: int | None) -> str:
    if maximum is None:
        return f"a whole number of at least {minimum}"
    return f"a whole number from {minimum or 0:,} to {maximum:,}"


def _number(given: Arguments, name: str) -> float | None:
    value = given.number(name, accept=SAMPLING_BOUNDS[name].accepts, expected=SAMPLING_BOUNDS[name].expected)
    return None if value is None else float(value)
