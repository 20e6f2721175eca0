"""Collects the diagnostics of the checker, and keeps the certain ones of a file with syntax errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from pastalang.diagnostics.diagnostic import Diagnostic, Label
from pastalang.diagnostics.registry import CODES
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.limits import MAX_DIAGNOSTICS
from pastalang.source import Source, Span


@dataclass(slots=True)
class Report:
    """The diagnostics in one source. The reports of all files of a program share `diagnostics`."""

    source: Source
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def for_source(self, source: Source) -> Report:
        return Report(source, self.diagnostics)

    def add(
        self,
        code: str,
        headline: str,
        span: Span,
        *,
        message: str = "",
        related: Iterable[Label] = (),
        help: str | tuple[str, ...] = (),
    ) -> None:
        """Add a diagnostic, unless it is a duplicate or there are too many to read."""
        advice = (help,) if isinstance(help, str) else help
        diagnostic = Diagnostic(
            code,
            headline,
            self.source,
            span,
            severity=CODES[code].severity,
            message=message,
            related=tuple(related),
            help=tuple(line for line in advice if line),
        )
        has_room = not self.is_full or (diagnostic.is_error and not self.has_errors)
        if has_room and diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    def add_twice(
        self, code: str, headline: str, again: Span, first: Span, *, how: str = "declared", help: str = ""
    ) -> None:
        """What may be there once only, and is there before."""
        related = [Label(first, f"first {how} here")]
        self.add(code, headline, again, message=f"{how} again", related=related, help=help)

    @property
    def is_full(self) -> bool:
        return len(self.diagnostics) >= MAX_DIAGNOSTICS

    def suggest(self, word: str, known: Iterable[str], *, otherwise: str = "") -> str:
        """A line of help that names the most similar known name, or `otherwise`."""
        meant = None if self.is_full else did_you_mean(word, known)
        return f"did you mean `{meant}`?" if meant is not None else otherwise

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.is_error for diagnostic in self.diagnostics)


def listed(words: Collection[str], *, max_shown: int = 12) -> str:
    """The words as a list in a sentence: `a`, `b` and `c`."""
    quoted = [f"`{word}`" for word in islice(words, max_shown)]
    if len(words) > max_shown:
        quoted.append(f"{len(words) - max_shown} more")
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}" if len(quoted) > 1 else "".join(quoted) or "nothing"


# ── files with syntax errors ────────────────────────────────────────────────────────────────────────────

CERTAIN = frozenset({
    "duplicate-field", "reserved-name", "bad-import", "import-cycle", "wrong-argument", "contradictory-limits",
    "unsupported-regex", "wrong-default", "duplicate-arm", "bad-schema", "wrong-input-type", "dependency-cycle",
})  # fmt: skip
# After one of these errors the nesting of the rest of the file is a guess.
UNBALANCED = frozenset({
    "unclosed-string", "unclosed-text", "unclosed-tag", "unclosed-block", "unclosed-brace", "unclosed-bracket",
    "unclosed-parenthesis", "stray-brace", "stray-bracket", "stray-end",
})  # fmt: skip
KEYWORDS_BEFORE_NAMES = frozenset({"type", "template", "async", "promise", "fork", "as"})
SEARCHED_CHARACTERS = 200


def certain_diagnostics(diagnostics: Iterable[Diagnostic], syntax: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """The diagnostics that the errors of `syntax` cannot have caused."""
    lines = {_line(mistake) for mistake in syntax}
    first_unbalanced = min((_line(mistake) for mistake in syntax if mistake.code in UNBALANCED), default=None)
    return tuple(
        diagnostic
        for diagnostic in diagnostics
        if _line(diagnostic) not in lines
        and (first_unbalanced is None or _line(diagnostic) < first_unbalanced)
        and (diagnostic.code in CERTAIN or _is_unknown(diagnostic))
    )


def _is_unknown(diagnostic: Diagnostic) -> bool:
    """Returns True if nothing in the file can declare the name, not even a part that could not be parsed."""
    if diagnostic.code != "unknown-name":
        return False
    text, span = diagnostic.source.text, diagnostic.span
    word = text[span.start : span.end]
    places = (start for start in _occurrences(word, text) if start != span.start)
    return not any(_may_declare(text, start, start + len(word)) for start in places)


def _occurrences(word: str, text: str) -> Iterator[int]:
    """Where the word stands alone, and not as a part of a longer one."""
    return (match.start() for match in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text))


def _may_declare(text: str, start: int, end: int) -> bool:
    """Returns True if the text may be a declaration. Reads only part of the line, so that long files take no time."""
    line_start = text.rfind("\n", max(start - SEARCHED_CHARACTERS, 0), start) + 1
    if line_start == 0 and start > SEARCHED_CHARACTERS:
        return True
    before, after = text[line_start:start].rstrip(' \t"'), text[end : end + SEARCHED_CHARACTERS].lstrip(' \t"')
    words = before.split()
    return (
        not words
        or before[-1] in "(,{"
        or words[-1] in KEYWORDS_BEFORE_NAMES
        or words[0] == "import"
        or after[:1] in (":", "(")
    )


def _line(diagnostic: Diagnostic) -> tuple[str, int]:
    """The file and the line. A diagnostic in an imported file shares no line with this one."""
    return diagnostic.source.name, diagnostic.source.place(diagnostic.span.start).line
