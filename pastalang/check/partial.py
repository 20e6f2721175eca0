"""Filters the checker's findings for a file with syntax errors: keeps only those that the errors cannot have caused.

A part of the file that could not be parsed may have declared, used or joined anything. An unknown name is therefore
reported only if it occurs nowhere in the text where a name may be declared. Missing or unused names are never reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pastalang.diagnostics.diagnostic import Diagnostic

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


def sure_findings(found: Iterable[Diagnostic], syntax: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """The findings that the errors of `syntax` cannot have caused."""
    lines = {_line(mistake) for mistake in syntax}
    first_unbalanced = min((_line(mistake) for mistake in syntax if mistake.code in UNBALANCED), default=None)
    return tuple(
        one
        for one in found
        if _line(one) not in lines
        and (first_unbalanced is None or _line(one) < first_unbalanced)
        and (one.code in CERTAIN or _is_unknown(one))
    )


def _is_unknown(finding: Diagnostic) -> bool:
    """Whether nothing in the file can declare the name, not even a part that could not be parsed."""
    if finding.code != "unknown-name":
        return False
    text, span = finding.source.text, finding.span
    word = text[span.start : span.end]
    places = (start for start in _occurrences(word, text) if start != span.start)
    return not any(_may_declare(text, start, start + len(word)) for start in places)


def _occurrences(word: str, text: str) -> Iterator[int]:
    """Where the word stands alone, and not as a part of a longer one."""
    return (found.start() for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text))


def _may_declare(text: str, start: int, end: int) -> bool:
    """Whether the text may be a declaration. Reads only part of the line, so that long files take no time."""
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


def _line(finding: Diagnostic) -> tuple[str, int]:
    """The file and the line. A finding in an imported file shares no line with this one."""
    return finding.source.name, finding.source.place(finding.span.start).line
