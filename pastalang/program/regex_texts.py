"""The texts that a regular expression matches, where they are few: a tree comes in, the texts go out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pastalang.program.regex_tree import Chars, Choice, Node, Repetition, Sequence, lengths


def texts_of(node: Node, *, fewer_than: int) -> frozenset[str] | None:
    """All of them; None where there are as many as that or more."""
    if lengths(node) is None:
        return frozenset()
    try:
        found = _texts(node, fewer_than)
    except _Many:
        return None
    return frozenset(found) if len(found) < fewer_than else None


class _Many(Exception):
    """Nothing that could follow makes them fewer: an expression that matches nothing is sorted out before."""


def _texts(node: Node, limit: int) -> set[str]:
    match node:
        case Chars(ranges):
            if sum(last - first + 1 for first, last in ranges) >= limit:
                raise _Many
            return {chr(code) for first, last in ranges for code in range(first, last + 1)}
        case Sequence(items):
            found = {""}
            for item in items:
                behind = _texts(item, limit)
                found = _few((left + right for left in found for right in behind), limit)
            return found
        case Choice(arms):
            return _few((text for arm in arms if lengths(arm) for text in _texts(arm, limit)), limit)
        case Repetition(item, minimum, maximum):
            return _repeated(item, minimum, maximum, limit)
        case _:
            assert_never(node)


def _repeated(item: Node, minimum: int, maximum: int | None, limit: int) -> set[str]:
    """Nothing is added any more once a repetition brings no new text."""
    once = _texts(item, limit) if lengths(item) and maximum != 0 else {""}
    if len(once) == 1:
        return _again_and_again(min(once), minimum, maximum, limit)
    last = {""}
    for _ in range(minimum):
        last = _few((left + right for left in last for right in once), limit)
    found = set(last)
    count = minimum
    while last and (maximum is None or count < maximum):
        last = {left + right for left in last for right in once} - found
        found = _few((*found, *last), limit)
        count += 1
    return found


def _again_and_again(text: str, minimum: int, maximum: int | None, limit: int) -> set[str]:
    if not text:
        return {""}
    if maximum is None or maximum - minimum + 1 >= limit:
        raise _Many
    return {text * count for count in range(minimum, maximum + 1)}


def _few(texts: Iterable[str], limit: int) -> set[str]:
    found: set[str] = set()
    for text in texts:
        found.add(text)
        if len(found) >= limit:
            raise _Many
    return found
