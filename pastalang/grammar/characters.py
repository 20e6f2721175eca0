"""The characters that a program may contain. A character that cannot be seen must not have a meaning."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

from pastalang.diagnostics.diagnostic import Severity
from pastalang.grammar.problems import Problem
from pastalang.source import Span

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]+")
# Overrides and isolates re-order what is shown; marks such as U+200F only help the order and stay allowed in text.
REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]+")
HIDDEN = frozenset(
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200d\u200e\u200f"
    "\u2060\u2061\u2062\u2063\u2064\u3164\uffa0\ufeff"
)
MOST_PROBLEMS = 10


def find_control(text: str) -> list[Problem]:
    """Control characters, which are not allowed anywhere; the first few of them."""
    matches = islice(CONTROL.finditer(text), MOST_PROBLEMS)
    return [_control(Span(match.start(), match.end()), text[match.start()]) for match in matches]


def find_reordering(text: str, quoted: Iterable[Span]) -> Iterator[Problem]:
    """Characters that re-order what is shown; in `quoted` text they only warn. The first few of them."""
    regions = tuple(quoted)
    for match in islice(REORDERING.finditer(text), MOST_PROBLEMS):
        inside = any(region.start <= match.start() < region.end for region in regions)
        yield _reordering(Span(match.start(), match.end()), text[match.start()], is_text=inside)


def is_hidden(character: str) -> bool:
    return character in HIDDEN or REORDERING.match(character) is not None


def describe_character(character: str) -> str:
    """`U+200B ZERO WIDTH SPACE`"""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" {name}" if name else "")


def hidden_problem(span: Span, character: str) -> Problem:
    return Problem(
        "hidden-character",
        f"an invisible character: {describe_character(character)}",
        span,
        message="hidden here",
        help=("remove it; in a quoted string, write it as an escape: " + f"\\u{ord(character):04x}",),
    )


def _control(span: Span, character: str) -> Problem:
    if character == "\r":
        headline, advice = "a carriage return without a line feed", "end lines with LF or CRLF"
    else:
        headline, advice = f"a control character, U+{ord(character):04X}", "remove it"
    return Problem("bad-character", headline, span, help=(advice,))


def _reordering(span: Span, character: str, *, is_text: bool) -> Problem:
    return Problem(
        "hidden-character",
        f"a character that re-orders what is shown: {describe_character(character)}",
        span,
        message="the text after this is not in the order in which it is shown",
        help=("remove it; in a quoted string, write it as an escape: " + f"\\u{ord(character):04x}",),
        severity=Severity.WARNING if is_text else Severity.ERROR,
    )
