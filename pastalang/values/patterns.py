r"""Matches texts against patterns, bounds their length, and converts the patterns of JSON Schema.

`program.regex` defines which patterns can be enforced and what they mean. A pattern of PastaLang matches the whole
value. A `pattern` of JSON Schema or Pydantic matches anywhere unless it is anchored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.regex_tree import characters, lengths, spell


def find_problem(pattern: str) -> str | None:
    """Why the pattern cannot be enforced; None if it can."""
    try:
        parse_regex(pattern)
    except RegexError as problem:
        return problem.message
    return None


def width(pattern: str) -> tuple[int, int | None] | None:
    """The minimum and maximum characters of a match; None if the pattern cannot be enforced or matches nothing."""
    try:
        found = lengths(parse_regex(pattern))
    except RegexError:
        return None
    return None if found is None else (found.shortest, found.longest)


def is_spelled_plainly(pattern: str) -> bool:
    """Whether every character that can match is one byte, in JSON too: printable ASCII without `"` and `\\`."""
    ranges = [one for place in characters(parse_regex(pattern)) for one in place]
    return all(
        low >= 0x20 and high < 0x7F and not any(low <= ord(escaped) <= high for escaped in '"\\')
        for low, high in ranges
    )


def engine_pattern(pattern: str) -> str:
    """The same pattern in a syntax that every engine reads alike: explicit classes, no anchors, no short-hands."""
    return spell(parse_regex(pattern))


def escaped(text: str) -> str:
    """The pattern that only this text matches."""
    return re.sub(r"([\\.^$|?*+()\[\]{}/-])", r"\\\1", text)


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text matches, in time linear in the text."""
    return _matcher(pattern)(text)


@lru_cache(maxsize=1024)
def whole_pattern(search: str) -> str:
    """The pattern that matches a whole value exactly where `search` finds a match anywhere in it.

    Keeps the author's spelling, without anchors, where the meaning allows. Raises `RegexError`.
    """
    alternatives = [_whole_alternative(alternative) for alternative in _split(_with_closing_brackets_escaped(search))]
    if len(alternatives) == 1:
        return _without_group(alternatives[0])
    return "|".join(alternatives)


@lru_cache(maxsize=1024)
def _matcher(pattern: str) -> Callable[[str], bool]:
    """Uses Pydantic's engine, which never backtracks, so no text makes a match slow."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    whole = f"^(?:{engine_pattern(pattern)})$"
    try:
        return SchemaValidator(core_schema.str_schema(pattern=whole, strict=True)).isinstance_python
    except SchemaError:
        raise RegexError("the pattern is too large", offset=0, length=len(pattern)) from None


# ── "anywhere" ───────────────────────────────────────────────────────────────────────────────────────────

_ANYTHING: Final = r"[\s\S]*"


def _whole_alternative(alternative: str) -> str:
    inside = _without_group(alternative)
    if inside != alternative:  # anchors may be inside a group around the whole alternative
        inner = whole_pattern(inside)
        return f"(?:{inner})" if len(_split(inner)) > 1 else inner
    begins = alternative.startswith("^")
    ends = alternative.endswith("$") and not _is_escaped(alternative, len(alternative) - 1)
    body = alternative[begins : len(alternative) - ends]
    parse_regex(body)  # raises for what cannot be enforced, such as an anchor anywhere else
    if body.startswith("^") or (body.endswith("$") and not _is_escaped(body, len(body) - 1)):
        raise RegexError("two anchors in a row", offset=0, length=len(alternative))
    return ("" if begins else _ANYTHING) + body + ("" if ends else _ANYTHING)


def _with_closing_brackets_escaped(pattern: str) -> str:
    """Other dialects read a `]` or `}` that closes nothing as the character itself."""
    written, done, is_counting = "", 0, False
    for at, _ in _positions(pattern):
        character = pattern[at]
        if character == "]" or (character == "}" and not is_counting):
            written, done = f"{written}{pattern[done:at]}\\", at
        is_counting = character == "{" or (is_counting and character != "}")
    return written + pattern[done:]


def _split(pattern: str) -> list[str]:
    """The alternatives of a pattern at its top level."""
    parts, start = [], 0
    for at, depth in _positions(pattern):
        if pattern[at] == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
    return [*parts, pattern[start:]]


def _without_group(pattern: str) -> str:
    """The pattern without a group around all of it."""
    opening = "(?:" if pattern.startswith("(?:") else "("
    if not pattern.startswith(opening) or not pattern.endswith(")") or pattern[1:2] == "?" != opening[1:2]:
        return pattern
    closings = [at for at, depth in _positions(pattern) if depth == 1 and pattern[at] == ")"]
    return pattern[len(opening) : -1] if closings == [len(pattern) - 1] else pattern


def _positions(pattern: str) -> list[tuple[int, int]]:
    """The index of each character that is neither escaped nor in a class, with the number of groups open before it."""
    found, at, depth = [], 0, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 2
            continue
        found.append((at, depth))
        if character == "[":
            at = _end_of_class(pattern, at)
            continue
        depth += (character == "(") - (character == ")")
        at += 1
    return found


def _end_of_class(pattern: str, start: int) -> int:
    at = start + 1
    at += pattern[at : at + 1] == "^"
    at += pattern[at : at + 1] == "]"  # a bracket in the first place of a class is a character
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _is_escaped(text: str, at: int) -> bool:
    backslashes = len(text[:at]) - len(text[:at].rstrip("\\"))
    return backslashes % 2 == 1
