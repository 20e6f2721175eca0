"""How strings, patterns and triple-quoted values are written: their escapes and their indentation."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pastalang.grammar.tokens import Problem
from pastalang.source import Span

SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
WRITTEN = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")
IN_PATTERN = re.compile(
    r"\\?([\n\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff])|\\.|(/)", re.DOTALL
)
QUOTES = '"""'
OPENING_LINE = re.compile(r"[ \t]*\n")


def resolve_string(inside: str, start: int) -> tuple[str, Problem | None]:
    """The meaning of the text between the quotes; `start` is its place in the source."""
    if "\\" not in inside:
        return inside, None
    for match in ESCAPE.finditer(inside):
        if match[2] is not None and match[2] not in SIMPLE:
            return inside, _unknown_escape(match[0], start + match.start())
    text = ESCAPE.sub(_resolve_one, inside)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if SURROGATE.search(text):
        lone = Problem("bad-escape", "an unpaired surrogate is not a character", Span(start, start + len(inside)))
        return inside, lone
    return text, None


def write_string(text: str) -> str:
    """The quoted string that means `text`; what cannot be shown is escaped."""
    return '"' + "".join(_write_one(character) for character in text) + '"'


def resolve_pattern(inside: str) -> str:
    return re.sub(r"\\(.)", lambda match: "/" if match[1] == "/" else match[0], inside)


def write_pattern(pattern: str) -> str:
    """The pattern between slashes; what may not stand in a source is escaped."""
    return f"/{IN_PATTERN.sub(_write_in_pattern, pattern) or '(?:)'}/"


def _write_in_pattern(match: re.Match[str]) -> str:
    if match[1] is not None:
        return "\\n" if match[1] == "\n" else f"\\u{ord(match[1]):04x}"
    return "\\/" if match[2] is not None else match[0]


def _resolve_one(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] is not None else SIMPLE[match[2]]


def _write_one(character: str) -> str:
    if character in WRITTEN:
        return WRITTEN[character]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def _unknown_escape(written: str, start: int) -> Problem:
    return Problem(
        "bad-escape",
        f"`{written}` is not an escape",
        Span(start, start + len(written)),
        help=('the escapes are \\" \\\\ \\n \\t \\r \\b \\f \\/ and \\uXXXX; to write a backslash, double it: \\\\',),
    )


# ── values in triple quotes ──────────────────────────────────────────────────────────────────────────────


def indentation(line: str) -> str:
    """The spaces and tabs that the line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def shared_indentation(lines: Sequence[str]) -> int:
    """How many spaces and tabs all lines begin with, the same ones in the same order."""
    if not lines:
        return 0
    first, last = min(lines), max(lines)  # what these two share, all share
    shared = 0
    while shared < len(first) and first[shared] == last[shared] and first[shared] in " \t":
        shared += 1
    return shared


def resolve_quotes(inside: str) -> str:
    """The meaning of a text in triple quotes, without its opening line, common indentation and last line end."""
    inside = inside.replace('\\"""', QUOTES)
    opening = OPENING_LINE.match(inside)
    if opening is None:
        return inside
    lines = inside[opening.end() :].split("\n")
    closes_alone = not lines[-1].strip(" \t")
    counted = [line for line in lines[:-1] if line.strip(" \t")] + [lines[-1]]
    margin = shared_indentation(counted)
    cut = [line[min(margin, len(indentation(line))) :] for line in lines]
    return "\n".join(cut[:-1] if closes_alone else cut)


def write_quotes(text: str) -> str:
    """The triple-quoted value that means `text`, from the first column."""
    return QUOTES + "\n" + text.replace(QUOTES, '\\"""') + "\n" + QUOTES
