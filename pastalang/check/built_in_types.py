"""The built-in types: what arguments each takes, the hole type that it becomes, and limits that no value satisfies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath

from pastalang.check.arguments import (
    TOKENS,
    Arguments,
    Exact,
    Parameter,
    Pattern,
    Signature,
    Texts,
    Whole,
    Word,
    read_arguments,
    read_value,
    sampling_hints,
)
from pastalang.check.report import Report, listed
from pastalang.grammar import nodes
from pastalang.limits import MAX_SCHEMA_BYTES, MAX_STRING_CHARS
from pastalang.program import types as t
from pastalang.program.regex import RegexError, lengths, parse_regex
from pastalang.program.visit import NO_TYPES, arms_of
from pastalang.source import Span
from pastalang.values.describe import counted
from pastalang.values.json import JsonValue, NotJson, parse_json, write_json
from pastalang.values.lengths import has_numbers, lower_bound, upper_bound
from pastalang.values.one_hole import QUOTE_TOKENS, limit_without_text
from pastalang.values.paths import Mismatch
from pastalang.values.patterns import FORMATS
from pastalang.values.schema.guard import find_in_schemas, find_unsafe
from pastalang.values.schema.importer import has_no_finite_value, opaque_problem
from pastalang.values.schema.keywords import modern
from pastalang.values.schema.split import split_text

SAMPLING_HINTS = sampling_hints("string(max=8)")


@dataclass(frozen=True, slots=True)
class Site:
    """The place that names a built-in type. Files are read from beside `path`, and only inside `folder`."""

    span: Span
    path: Path | None
    folder: Path | None
    report: Report


@dataclass(frozen=True, slots=True)
class BuiltInType:
    """A type that the language has by name."""

    signature: Signature
    build: Callable[[Arguments, Site], t.Type]


def built_in_type(node: nodes.NamedType, *, path: Path | None, folder: Path | None, report: Report) -> t.Type:
    """The hole type of a node that names a built-in type."""
    built_in = BUILT_IN_TYPES[node.name.text]
    given = read_arguments(node.arguments, built_in.signature, report)
    return built_in.build(given, Site(node.span, path, folder, report))


# ── string ───────────────────────────────────────────────────────────────────────────────────────────────

CHARS = Whole(0, MAX_STRING_CHARS)
STRING = Signature(
    "`string`",
    {
        "max": TOKENS,
        "min_chars": CHARS,
        "max_chars": CHARS,
        "pattern": Pattern(),
        "format": Word(FORMATS, unknown='unknown format "{}"', called="the formats are"),
        "stop": Texts(),
    },
    hints={
        **SAMPLING_HINTS,
        "min": "a lower limit of a string counts characters: `min_chars`",
        "max_tokens": "the token limit is called `max`",
        "min_length": "did you mean `min_chars`?",
        "max_length": "did you mean `max_chars`? `max` counts tokens",
        "minLength": "did you mean `min_chars`?",
        "maxLength": "did you mean `max_chars`? `max` counts tokens",
        "enum": 'write the values as a union: `"tv" | "phone"`',
    },
)


def _string(given: Arguments, site: Site) -> t.String:
    string = t.String(
        max_tokens=given["max"],
        min_chars=given["min_chars"] or 0,
        max_chars=given["max_chars"],
        pattern=given["pattern"],
        format=given["format"],
        stop=_stops(given["stop"] or ()),
        may_be_empty=given["min_chars"] == 0,
    )
    _check_lengths(string, given, site.report)
    return string


def _stops(given: tuple[str, ...]) -> tuple[str, ...]:
    """A text that ends at a character ends at the end of its line too. Longer ends may come lines later."""
    return given if any(len(text) > 1 for text in given) else tuple(dict.fromkeys((*given, "\n"))) if given else ()


def _check_lengths(string: t.String, given: Arguments, report: Report) -> None:
    if string.max_chars is not None and string.min_chars > string.max_chars:
        at_most = counted(string.max_chars, "character")
        report.add(
            "contradictory-limits",
            f"a string of at least {string.min_chars} and at most {at_most} cannot exist",
            given.span_of("min_chars").join(given.span_of("max_chars")),
            help="swap the two limits, or leave one out",
        )
        return
    if string.pattern is not None:
        _check_pattern_lengths(string, string.pattern, f"/{string.pattern}/", given.span_of("pattern"), report)
    pattern = None if string.format is None else FORMATS[string.format].pattern
    if pattern is not None:
        _check_pattern_lengths(string, pattern, f'the format "{string.format}"', given.span_of("format"), report)


def _check_pattern_lengths(string: t.String, pattern: str, named: str, span: Span, report: Report) -> None:
    try:
        bounds = lengths(parse_regex(pattern))
    except RegexError:
        return
    if bounds is None:
        problem = f"no text matches {named}"
    elif string.max_chars is not None and bounds.shortest > string.max_chars:
        allowed = f"only {string.max_chars} {'is' if string.max_chars == 1 else 'are'} allowed"
        problem = f"{named} needs at least {counted(bounds.shortest, 'character')}, but {allowed}"
    elif bounds.longest is not None and bounds.longest < string.min_chars:
        problem = f"{named} has at most {counted(bounds.longest, 'character')}, but {string.min_chars} are required"
    else:
        return
    report.add("contradictory-limits", problem, span)


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
        if (max_tokens := limit_without_text(arm)) is not None:
            report.add(
                "contradictory-limits",
                f"`max={max_tokens}` leaves no room for text: in JSON, a string takes {QUOTE_TOKENS} tokens for its"
                " quotes",
                span,
                help=f"for {counted(max_tokens, 'token')} of text, write `max={max_tokens + QUOTE_TOKENS}`",
            )


# ── texts with threads, quotations, patterns ─────────────────────────────────────────────────────────────

POLICIES = tuple(policy.value for policy in t.AutoPolicy)
_TURN_ENDS = "a text with threads ends with the model's turn, or at its `max`"
AUTO = Signature(
    "`auto`",
    {"max": TOKENS},
    unnamed=(nodes.PathValue, nodes.StringValue),
    hints={
        **sampling_hints("auto(pasta, max=200)"),
        **dict.fromkeys(("stop", "min_chars", "max_chars", "pattern", "format"), _TURN_ENDS),
        "max_tokens": "the token limit is called `max`",
    },
)


def _auto(given: Arguments, site: Site) -> t.String:
    """A text in which the model opens threads."""
    named, tags = given[""], t.AutoPolicy.PASTA
    if isinstance(named, nodes.PathValue):
        tags = policy(named.text, named.span, site.report)
    elif isinstance(named, nodes.StringValue):
        site.report.add("wrong-argument", "the policy of `auto` is a name, without quotes", named.span)
    else:
        site.report.add(
            "wrong-argument",
            "`auto` needs a policy, which says what tags the model writes",
            site.span,
            help="name a policy: `auto(pasta, max=200)` or `auto(apar, max=200)`",
        )
    return t.String(max_tokens=given["max"], auto=tags)


def policy(name: str, span: Span, report: Report) -> t.AutoPolicy:
    if name in POLICIES:
        return t.AutoPolicy(name)
    advice = report.suggest(name, POLICIES, otherwise=f"the policies are {listed(POLICIES)}")
    report.add("unknown-policy", f"unknown policy `{name}`", span, help=advice)
    return t.AutoPolicy.PASTA


VERBATIM = Signature(
    "`verbatim`",
    {
        "max": TOKENS,
        "at": Word(
            [unit.value for unit in t.QuoteUnit], unknown='`at` of `verbatim` cannot be "{}"', called="it takes"
        ),
    },
    unnamed=(nodes.PathValue,),
)


def _verbatim(given: Arguments, site: Site) -> t.Verbatim | t.Anything:
    path = given[""]
    if path is None:
        site.report.add(
            "wrong-argument",
            "`verbatim` needs the input that it copies from",
            site.span,
            help="name an input: `verbatim(title)`",
        )
        return t.Anything()
    unit = t.QuoteUnit.WORDS if given["at"] is None else t.QuoteUnit(given["at"])
    return t.Verbatim(path.text, max_tokens=given["max"], at=unit)


REGEX = Signature("a regular expression", {"max": TOKENS})


def regex(node: nodes.RegexType, report: Report) -> t.Regex | None:
    given = read_arguments(node.arguments, REGEX, report)
    pattern = read_value(node.pattern, Pattern(), "", report)
    if pattern is None:
        return None
    if lengths(parse_regex(pattern)) is None:
        report.add("contradictory-limits", f"no text matches /{pattern}/", node.pattern.span)
    return t.Regex(pattern, max_tokens=given["max"])


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────

NUMBER_HINTS = {
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


def _is_whole(value: Decimal) -> bool:
    return value == value.to_integral_value()


def _number_signature(owner: str, bound: Exact) -> Signature:
    step = Exact(lambda value: value > 0 and bound.accepts(value), f"{bound.expected} above 0")
    parameters: dict[str, Parameter] = dict.fromkeys(("min", "max", "above", "below"), bound)
    return Signature(
        owner,
        {**parameters, "multiple_of": step, "max_tokens": TOKENS},
        unnamed=(nodes.RangeValue,),
        ends="a bound of the range",
        hints=NUMBER_HINTS,
    )


INTEGER = _number_signature("`integer`", Exact(_is_whole, "a whole number"))
NUMBER = _number_signature("`number`", Exact(lambda value: True, "a number"))


def _integer(given: Arguments, site: Site) -> t.Integer:
    def bound(name: str) -> int | None:
        return None if given[name] is None else int(given[name])

    integer = t.Integer(
        minimum=bound("min"),
        maximum=bound("max"),
        exclusive_minimum=bound("above"),
        exclusive_maximum=bound("below"),
        multiple_of=bound("multiple_of"),
        max_tokens=given["max_tokens"],
    )
    _check_bounds(integer, "whole number", site)
    return integer


def _number(given: Arguments, site: Site) -> t.Number:
    number = t.Number(
        minimum=given["min"],
        maximum=given["max"],
        exclusive_minimum=given["above"],
        exclusive_maximum=given["below"],
        multiple_of=given["multiple_of"],
        max_tokens=given["max_tokens"],
    )
    _check_bounds(number, "number", site)
    return number


def _check_bounds(type: t.Integer | t.Number, kind: str, site: Site) -> None:
    low, high = lower_bound(type), upper_bound(type)
    if low is None or high is None or has_numbers(type):
        return
    is_swapped = low[0] > high[0]
    multiple = f" that is a multiple of {type.multiple_of}" if type.multiple_of is not None and not is_swapped else ""
    site.report.add(
        "contradictory-limits",
        f"no {kind}{multiple} is {_side(*low, 'at least', 'above')} and {_side(*high, 'at most', 'below')}",
        site.span,
        help="swap the two limits" if is_swapped else "",
    )


def _side(end: Fraction, is_open: bool, closed: str, opened: str) -> str:
    shown = str(end.numerator) if end.denominator == 1 else f"{float(end):g}"
    return f"{opened if is_open else closed} {shown}"


# ── JSON Schemas ─────────────────────────────────────────────────────────────────────────────────────────

SCHEMA = Signature("`schema`", {"max_tokens": TOKENS}, unnamed=(nodes.StringValue,))


def _schema(given: Arguments, site: Site) -> t.Schema | t.Anything:
    """A JSON Schema in a file, `schema("order.json")`, or written inline: one hole with the type that it describes."""
    value = given[""]
    if value is None:
        site.report.add(
            "wrong-argument",
            "`schema` needs a file or a JSON Schema in quotes",
            site.span,
            help='write `schema("order.json")`',
        )
        return t.Anything()
    text = value.text if _is_document(value.text) else _read_file(value, site)
    document = None if text is None else _canonical(text, value, site.report)
    return t.Anything() if document is None else t.Schema(document, max_tokens=given["max_tokens"])


def _is_document(text: str) -> bool:
    """Returns True if the text is a JSON document, not the path of a file."""
    return text.lstrip().startswith(("{", "[")) or text.strip() in ("true", "false")


def _read_file(value: nodes.StringValue, site: Site) -> str | None:
    written = value.text
    if site.path is None or site.folder is None:
        site.report.add(
            "bad-schema", "a program given as text has no folder to read a schema from", value.span,
            help="save it to a file and load that, or write the schema inline",
        )  # fmt: skip
        return None
    problem = ""
    if "://" in written:
        problem = "a schema cannot be fetched from a URL"
    elif PurePosixPath(written).is_absolute() or "\\" in written or "\0" in written or not written:
        problem = f"the schema path {written or '(empty)'} is not relative"
    if problem:
        site.report.add("bad-schema", problem, value.span, help="save the schema next to the program")
        return None
    try:
        path = (site.path.parent / written).resolve()
        if not path.is_relative_to(site.folder):
            site.report.add("bad-schema", f"the schema {written} is outside the program's folder", value.span)
            return None
        with path.open("rb") as stream:
            data = stream.read(MAX_SCHEMA_BYTES + 1)
        return data.decode("utf-8")
    except UnicodeDecodeError:
        site.report.add("bad-schema", f"the schema {written} is not UTF-8 text", value.span)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        site.report.add("bad-schema", f"the schema {written} cannot be read: {reason.lower()}", value.span)
    return None


def _canonical(text: str, value: nodes.StringValue, report: Report) -> str | None:
    """The document as compact JSON, its keys in the order written; None, with a diagnostic, if it is refused."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
        report.add("too-large", f"this JSON Schema exceeds the limit of {MAX_SCHEMA_BYTES:,} bytes", value.span)
        return None
    try:
        document = parse_json(text)
    except NotJson as problem:
        report.add("bad-schema", "this JSON Schema is not JSON", value.span, message=str(problem))
        return None
    if not isinstance(document, dict | bool):
        report.add("bad-schema", "a JSON Schema must be an object", value.span)
        return None
    mismatch = document_problem(document)
    if mismatch is not None:
        report.add("bad-schema", "this JSON Schema cannot be enforced", value.span, message=str(mismatch))
        return None
    written = write_json(modern(document))
    if checked := split_text(written).checked:
        report.add(
            "checked-after-decoding",
            "this JSON Schema is checked after decoding",
            value.span,
            message=f"{listed(checked, max_shown=4)} cannot be enforced token by token",
            help="a value that fails is decoded again; `repair` says how often before the run ends with `Invalid`",
        )
    return written


def document_problem(document: JsonValue) -> Mismatch | None:
    """The first problem of the document; None if the grammar engine can enforce it."""
    if document is False:
        return Mismatch(("#",), "`false` accepts no value")
    problem = (
        find_unsafe(document)
        or find_in_schemas(document, opaque_problem)
        or (("", "requires itself, so no value can end") if has_no_finite_value(document) else None)
    )
    return None if problem is None else Mismatch((f"#{problem[0]}",), problem[1])


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────


def _without_arguments(name: str, type: t.Type) -> BuiltInType:
    return BuiltInType(Signature(f"`{name}`"), lambda given, site: type)


INPUT_TYPES = ("text", "integer", "number", "boolean", "messages")

BUILT_IN_TYPES: Mapping[str, BuiltInType] = {
    "string": BuiltInType(STRING, _string),
    "integer": BuiltInType(INTEGER, _integer),
    "number": BuiltInType(NUMBER, _number),
    "boolean": _without_arguments("boolean", t.PLAIN_TYPES["boolean"]),
    "null": _without_arguments("null", t.Null()),
    "any": BuiltInType(Signature("`any`", {"max": TOKENS}), lambda given, site: t.Anything(given["max"])),
    "date": _without_arguments("date", t.PLAIN_TYPES["date"]),
    "datetime": _without_arguments("datetime", t.PLAIN_TYPES["datetime"]),
    "time": _without_arguments("time", t.PLAIN_TYPES["time"]),
    "uuid": _without_arguments("uuid", t.PLAIN_TYPES["uuid"]),
    "verbatim": BuiltInType(VERBATIM, _verbatim),
    "schema": BuiltInType(SCHEMA, _schema),
    "auto": BuiltInType(AUTO, _auto),
}
