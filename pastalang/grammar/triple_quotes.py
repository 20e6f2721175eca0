"""Triple-quoted values, such as an inline JSON Schema, and the indentation that their lines share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pastalang.grammar.code_scanner import Scan
from pastalang.grammar.problems import Problem
from pastalang.grammar.tokens import Token
from pastalang.source import Span


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


QUOTES = '"""'
END = re.compile(r'(?<!\\)"""')
OPENING_LINE = re.compile(r"[ \t]*\n")


def scan_schema_text(result: Scan, start: int) -> int:
    """Scan the value whose opening quotes are at `start`. Returns the place after its closing quotes."""
    text = result.source.text
    closing = END.search(text, start + 3)
    end, close = (closing.start(), closing.end()) if closing else (len(text), len(text))
    if closing is None:
        result.report(
            Problem("unclosed-text", "a text that is not closed", Span(start, start + 3), message='no closing `"""`')
        )
    result.quoted.append(Span(start, close))
    result.add(Token("STRING", text[start:close], start, close, resolve_quotes(text[start + 3 : end])))
    return close


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
