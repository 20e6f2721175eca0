"""Scan a whole source: its words, marks and comments, and the problems of single characters."""

from __future__ import annotations

from pastalang.grammar.characters import MOST_PROBLEMS, find_control, find_reordering
from pastalang.grammar.code_scanner import Scan, TooMuch, scan_code
from pastalang.grammar.text_scanner import scan_text
from pastalang.grammar.triple_quotes import scan_schema_text
from pastalang.source import Source

# Quotes after one of these hold a value, such as a JSON Schema, and no tags.
BEFORE_A_VALUE = frozenset({"LEFT_PARENTHESIS", "COMMA", "COLON", "EQUALS", "LEFT_BRACKET"})


def scan(source: Source) -> Scan:
    """All words and marks of a source, with line ends."""
    result = Scan(source)
    result.problems.extend(find_control(source.text))
    if len(result.problems) == MOST_PROBLEMS:
        raise TooMuch(*result.problems)  # this is not a text file
    position = 0
    while position < len(source.text):
        position = scan_code(result, position)
        if position == len(source.text):
            break
        scan_quotes = scan_schema_text if _expects_value(result) else scan_text
        position = scan_quotes(result, position)
    for problem in find_reordering(source.text, result.quoted):
        result.report(problem)
    return result


def _expects_value(result: Scan) -> bool:
    before = (token.type for token in reversed(result.tokens) if token.type != "NEWLINE")
    return next(before, "") in BEFORE_A_VALUE
