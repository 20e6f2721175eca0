"""Show diagnostics as text (lines with carets), as JSON, and as annotations for GitHub."""

from __future__ import annotations

import json
from collections.abc import Iterable
from unicodedata import category, east_asian_width

from pastalang.diagnostics.diagnostic import Diagnostic, Label
from pastalang.source import Source, Span

TAB = 4  # columns that a tab is shown as
MAX_LINE_COLUMNS = 140  # columns of a source line that are shown; a longer one is cut around the carets
CUT = "…"
JSON_VERSION = 1


def render_text(diagnostics: Iterable[Diagnostic]) -> str:
    """All diagnostics, an empty line between them."""
    return "\n".join(map(render_one, diagnostics))


def render_one(diagnostic: Diagnostic) -> str:
    """A headline, the place, the lines with carets, further places, advice."""
    labels = [Label(diagnostic.span, diagnostic.message, diagnostic.source), *diagnostic.related]
    margin = max(len(str(_source(label, diagnostic).place(label.span.start).line)) for label in labels)
    lines = [f"{diagnostic.severity.value}[{diagnostic.code}]: {_clean(diagnostic.headline)}"]
    lines += _excerpts(labels, diagnostic, margin)
    if diagnostic.help:
        lines += [*([f"{' ' * margin} |"] if _has_text(diagnostic) else []), *_advice(diagnostic, margin)]
    return "\n".join(lines) + "\n"


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    """One JSON document; `version` grows when a key is removed or changes its meaning."""
    document = {"version": JSON_VERSION, "diagnostics": [as_data(diagnostic) for diagnostic in diagnostics]}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def as_data(diagnostic: Diagnostic) -> dict[str, object]:
    """The diagnostic as plain data; lines and columns are counted from 1, columns in characters, the end excluded."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "headline": diagnostic.headline,
        **_place_data(diagnostic.source, diagnostic.span),
        "message": diagnostic.message,
        "related": [
            {"message": label.message, **_place_data(_source(label, diagnostic), label.span)}
            for label in diagnostic.related
        ],
        "help": list(diagnostic.help),
    }


def render_github(diagnostics: Iterable[Diagnostic]) -> str:
    """Workflow commands, which GitHub shows as annotations of the changed lines."""
    return "".join(_annotation(diagnostic) + "\n" for diagnostic in diagnostics)


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """`2 errors, 1 warning`"""
    shown = list(diagnostics)
    errors = sum(diagnostic.is_error for diagnostic in shown)
    counts = [(errors, "error"), (len(shown) - errors, "warning")]
    return ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in counts if count) or "no problems"


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────


def _source(label: Label, diagnostic: Diagnostic) -> Source:
    return label.source if label.source is not None else diagnostic.source


def _has_text(diagnostic: Diagnostic) -> bool:
    return bool(diagnostic.source.text)


def _excerpts(labels: list[Label], diagnostic: Diagnostic, margin: int) -> list[str]:
    """The lines with their marks, each line once; the diagnostic's own comes first."""
    edge = " " * margin
    lines: list[str] = []
    source: Source | None = None
    number = 0
    for index, label in enumerate([labels[0], *sorted(labels[1:], key=lambda label: _nearness(label, diagnostic))]):
        before, source = source, _source(label, diagnostic)
        place = source.place(label.span.start)
        if source is not before:
            where = f":{place.line}:{place.column}" if source.text else ""
            lines.append(f"{edge}{'-->' if index == 0 else '::>'} {source.name}{where}")
        if not source.text:
            continue
        if source is not before or place.line != number:
            lines.append(f"{edge} |" if source is not before else f"{edge}...")
            lines.append(f"{place.line:>{margin}} | {_cut_line(label.span, source)[0]}")
        lines.append(f"{edge} | {_marks(label, source, mark='^' if index == 0 else '-')}")
        number = place.line
    return lines


def _nearness(label: Label, diagnostic: Diagnostic) -> tuple[bool, bool]:
    """First the line of the diagnostic itself, then its file, then other files."""
    source = _source(label, diagnostic)
    is_elsewhere = source is not diagnostic.source
    own = diagnostic.source.place(diagnostic.span.start).line
    return is_elsewhere, is_elsewhere or source.place(label.span.start).line != own


def _marks(label: Label, source: Source, *, mark: str) -> str:
    _, before, width = _cut_line(label.span, source)
    words = f" {_clean(label.message)}" if label.message else ""
    return " " * before + mark * max(1, width) + words


def _cut_line(span: Span, source: Source) -> tuple[str, int, int]:
    place = source.place(span.start)
    text = source.line(place.line)
    start = place.column - 1
    end = min(span.end - source.line_starts[place.line - 1], len(text))
    return _cut(text, start, max(end, start))


def _cut(text: str, start: int, end: int) -> tuple[str, int, int]:
    """The line as it is shown, the columns before the carets, and how many carets."""
    near = slice(max(0, start - MAX_LINE_COLUMNS), start), slice(start, end), slice(end, end + MAX_LINE_COLUMNS)
    before, marked, after = (_visible(text[part][: 2 * MAX_LINE_COLUMNS]) for part in near)
    if start > MAX_LINE_COLUMNS:
        before = CUT + before
    column, width = _columns(before), _columns(marked)
    if column + width + _columns(after) <= MAX_LINE_COLUMNS:
        return before + marked + after, column, width
    before = _last_columns(before, MAX_LINE_COLUMNS // 2) if column > MAX_LINE_COLUMNS // 2 else before
    marked = _first_columns(marked, MAX_LINE_COLUMNS - _columns(before))
    after = _first_columns(after, max(1, MAX_LINE_COLUMNS - _columns(before) - _columns(marked)))
    return before + marked + after, _columns(before), _columns(marked)


def _visible(text: str) -> str:
    """What a terminal can show: tabs as spaces, other unprintable characters as their code."""
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    if character == "\t":
        return " " * TAB
    if character == " " or character.isprintable():
        return character
    return f"<{ord(character):04X}>"


def _columns(text: str) -> int:
    return sum(map(_width, text))


def _width(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _first_columns(text: str, columns: int) -> str:
    if _columns(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _width(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + CUT


def _last_columns(text: str, columns: int) -> str:
    if _columns(text) <= columns:
        return text
    kept, used = [], 1
    for character in reversed(text):
        used += _width(character)
        if used > columns:
            break
        kept.append(character)
    return CUT + "".join(reversed(kept))


def _advice(diagnostic: Diagnostic, margin: int) -> list[str]:
    return [f"{' ' * margin} = help: {_clean(line)}" for line in diagnostic.help]


def _clean(text: str) -> str:
    """Words that quote a program on one line, with nothing in them that moves the cursor."""
    return _visible(text.replace("\n", "\\n"))


# ── data ─────────────────────────────────────────────────────────────────────────────────────────────────


def _place_data(source: Source, span: Span) -> dict[str, object]:
    start, end = source.place(span.start), source.place(span.end)
    return {
        "file": source.name,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
    }


def _annotation(diagnostic: Diagnostic) -> str:
    place = _place_data(diagnostic.source, diagnostic.span)
    properties = {
        "file": diagnostic.source.name,
        "line": place["line"],
        "col": place["column"],
        "endLine": place["end_line"],
        "title": f"{diagnostic.code}: {diagnostic.headline}",
    }
    shown = ",".join(f"{name}={_escape_property(str(value))}" for name, value in properties.items())
    words = "; ".join(word for word in (diagnostic.message, *diagnostic.help) if word) or diagnostic.headline
    return f"::{diagnostic.severity.value} {shown}::{_escape(words)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
