"""The words and marks of the language, as the scanner returns them, and syntax problems as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pastalang.diagnostics.diagnostic import Diagnostic, Label, Severity
from pastalang.source import Source, Span


class Token(NamedTuple):
    """One word, mark or stretch of text. `type` is a terminal of `pasta.lark`."""

    type: str
    text: str  # as written
    start: int
    end: int
    value: str = ""  # for strings, patterns and stretches of text: escapes resolved

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


# Words that begin a declaration when they begin a line outside all brackets.
DECLARATION_WORDS: Final = frozenset({"import", "type", "template", "system", "user", "assistant", "example"})

# Words with a meaning in some places, and names everywhere else.
WORDS: Final = frozenset(
    {
        "from", "each", "as", "after", "with", "sequential", "json", "text", "auto", "think",
        "null", "true", "false", "async", "promise", "sync", "fork", "in", "end",
        "for", "if", "not", "else",
    }
)  # fmt: skip

MARKS: Final = {
    "...": "ELLIPSIS",
    "..": "DOTS",
    ".": "DOT",
    "(": "LEFT_PARENTHESIS",
    ")": "RIGHT_PARENTHESIS",
    "[": "LEFT_BRACKET",
    "]": "RIGHT_BRACKET",
    "{": "LEFT_BRACE",
    "}": "RIGHT_BRACE",
    ",": "COMMA",
    ":": "COLON",
    "==": "IS_EQUAL",
    "=": "EQUALS",
    "|": "BAR",
    "~": "TILDE",
}

OPENING: Final = {
    "LEFT_PARENTHESIS": "RIGHT_PARENTHESIS",
    "LEFT_BRACKET": "RIGHT_BRACKET",
    "LEFT_BRACE": "RIGHT_BRACE",
    "TAG_OPEN": "TAG_CLOSE",
}
CLOSING: Final = frozenset(OPENING.values())
CLOSING_TEXT: Final = {"RIGHT_PARENTHESIS": ")", "RIGHT_BRACKET": "]", "RIGHT_BRACE": "}", "TAG_CLOSE": "}"}

# Terminals that are allowed as names.
NAME_TERMINALS: Final = frozenset({"NAME", *(word.upper() for word in WORDS)})


# ── problems ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a place of the text being parsed."""

    code: str
    headline: str
    span: Span
    message: str = ""
    help: tuple[str, ...] = ()
    related: tuple[Label, ...] = ()
    severity: Severity = Severity.ERROR

    def in_source(self, source: Source) -> Diagnostic:
        return Diagnostic(
            self.code,
            self.headline,
            source,
            self.span,
            severity=self.severity,
            message=self.message,
            related=self.related,
            help=self.help,
        )


class SyntaxProblem(Exception):
    """Raised for a construct that the grammar allows and the language does not."""

    def __init__(self, code: str, headline: str, span: Span, *help: str) -> None:
        super().__init__(headline)
        self.problem = Problem(code, headline, span, help=help)
