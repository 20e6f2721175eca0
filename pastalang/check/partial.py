"""What the checker says about a file with syntax errors: only what holds whatever the unread parts say.

A part that could not be read may have declared, used or joined anything. So a name that nothing declares is
reported only where the text shows it in no place of a declaration, and what is missing or unused never is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pastalang.diagnostics.diagnostic import Diagnostic

SURE = frozenset({
    "duplicate-field", "reserved-name", "bad-import", "import-cycle", "wrong-argument", "contradictory-limits",
    "unsupported-regex", "wrong-default", "duplicate-arm", "bad-schema", "wrong-input-type", "dependency-cycle",
})  # fmt: skip
# Behind these, what stands inside what is a guess.
SHIFTING = frozenset({
    "unclosed-string", "unclosed-text", "unclosed-tag", "unclosed-block", "unclosed-brace", "unclosed-bracket",
    "unclosed-parenthesis", "stray-brace", "stray-bracket", "stray-end",
})  # fmt: skip
INTRODUCING = frozenset({"type", "template", "async", "promise", "fork", "as"})
LOOKED_AT = 200


def sure_findings(found: Iterable[Diagnostic], syntax: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Those of `found` that the mistakes of `syntax` cannot have caused."""
    lines = {_line(mistake) for mistake in syntax}
    shifted = min((_line(mistake) for mistake in syntax if mistake.code in SHIFTING), default=None)
    return tuple(
        one
        for one in found
        if _line(one) not in lines
        and (shifted is None or _line(one) < shifted)
        and (one.code in SURE or _is_unknown(one))
    )


def _is_unknown(finding: Diagnostic) -> bool:
    """Whether its name stands in no place of the file where names are declared, be that place readable or not."""
    if finding.code != "unknown-name":
        return False
    text, span = finding.source.text, finding.span
    word = text[span.start : span.end]
    places = (start for start in _occurrences(word, text) if start != span.start)
    return not any(_may_declare(text, start, start + len(word)) for start in places)


def _occurrences(word: str, text: str) -> Iterator[int]:
    start = text.find(word)
    while start >= 0:
        yield start
        start = text.find(word, start + len(word))


def _may_declare(text: str, start: int, end: int) -> bool:
    """Only the line and a few characters are looked at, so that long files cost no time; in doubt it may."""
    line_start = text.rfind("\n", max(start - LOOKED_AT, 0), start) + 1
    if line_start == 0 and start > LOOKED_AT:
        return True
    before, behind = text[line_start:start].rstrip(' \t"'), text[end : end + LOOKED_AT].lstrip(' \t"')
    words = before.split()
    return (
        not words or before[-1] in "(,{" or words[-1] in INTRODUCING or words[0] == "import" or behind[:1] in (":", "(")
    )


def _line(finding: Diagnostic) -> tuple[str, int]:
    """A finding of an imported file is on none of the lines of this one."""
    return finding.source.name, finding.source.place(finding.span.start).line
