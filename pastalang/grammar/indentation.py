"""From the beginnings of lines to the indentation that they share."""

from __future__ import annotations

from collections.abc import Sequence


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
