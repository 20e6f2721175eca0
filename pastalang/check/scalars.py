"""From `string(max=12)` or `/[a-z]+/` as written to a hole type that some text satisfies."""

from __future__ import annotations

from pastalang.check.arguments import Arguments, check_regex, read_arguments
from pastalang.check.report import Report, listed
from pastalang.grammar import nodes
from pastalang.limits import MAX_HOLE_TOKENS, MAX_STRING_CHARS
from pastalang.program import types as t
from pastalang.program.regex import RegexError, lengths, parse_regex
from pastalang.values.formats import FORMATS

STRING_LIMITS = ("max", "min_chars", "max_chars", "pattern", "format", "stop")
STRING_HINTS = {
    "min": "a lower limit of a string counts characters: `min_chars`",
    "max_tokens": "the limit of tokens is called `max`",
    "min_length": "did you mean `min_chars`?",
    "max_length": "did you mean `max_chars`? `max` counts tokens",
    "enum": 'write the values as a union: `"tv" | "phone"`',
}


def string(arguments: tuple[nodes.Argument, ...], report: Report) -> t.String:
    given = read_arguments(arguments, owner="string", allowed=STRING_LIMITS, report=report, hints=STRING_HINTS)
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
        problem = f"{named} needs at least {bounds.shortest} characters, {found.max_chars} are allowed"
    elif bounds.longest is not None and bounds.longest < found.min_chars:
        problem = f"{named} has at most {bounds.longest} characters, {found.min_chars} are asked for"
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
