"""Words in messages: the known one that a misspelt one was probably meant to be, and lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

MAX_WORD_CHARS = 64  # longer words are not typing mistakes, and the distance is quadratic
MAX_WORDS = 200  # only so many known words are compared


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word that is closest to `word`, if one is close enough to be a slip."""
    if len(word) > MAX_WORD_CHARS:
        return None
    others = sorted({other for other in islice(known, MAX_WORDS) if other != word})
    allowed = max(1, len(word) // 3)
    ranked = [(distance(word.lower(), other.lower()), other) for other in others if _may_be_close(word, other, allowed)]
    nearest = min(ranked, default=(allowed + 1, ""))
    return nearest[1] if nearest[0] <= allowed else _longer_form(word, others)


def one_of(words: Sequence[str]) -> str:
    """`a, b or c`"""
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def first_of(words: Sequence[str], most: int) -> str:
    """`a, b and 3 more`"""
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def distance(left: str, right: str) -> int:
    """How many letters to insert, remove, replace or swap with their neighbour."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        before, last, row = row, before, [i]
        for j, b in enumerate(right, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _may_be_close(word: str, other: str, allowed: int) -> bool:
    """A quick answer before the distance is counted: each change alters the set of letters by two at most."""
    if abs(len(other) - len(word)) > allowed:
        return False
    return len({*word.lower()} ^ {*other.lower()}) <= 2 * allowed


def _longer_form(word: str, known: Iterable[str]) -> str | None:
    """`str` for `string`, `maximum` for `max`: the only known word that one is the beginning of."""
    if len(word) < 3:
        return None
    written = word.lower()
    longer = {other for other in known if other != word and other.lower().startswith(written)}
    shorter = {other for other in known if other != word and len(other) > 2 and written.startswith(other.lower())}
    forms = longer or shorter
    return forms.pop() if len(forms) == 1 else None
