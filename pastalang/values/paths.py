"""How the place of a value is written for people. Results, events, errors, traces and drawings all write it this way.

lines[0].total        in an item of a list; in `lines[].total` of any item
call.city             in a union, whichever of its arms the value belongs to
order["unit price"]   under a key that is not a plain word
answer                the whole answer
[1].lines[0].total    in the answer to the second of several stacked documents
main                  the branch that all others start from

A plan names its fields by patterns. They keep apart what the place of a value does not: `call(b).day` is in the arm
`b` of `call`, and `lines#2` is a second list at the place of `lines`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

WHOLE: Final = "answer"  # the value that is the whole answer
MAIN: Final = "main"  # the branch that all others start from
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"|\[\]|\((?:"(?:[^"\\]|\\.)*"|[^()"]*)\)|#\d+|[^.\[("#]+')


def path_text(path: Iterable[str | int]) -> str:
    """A path as people write it. `[]` is any item, `{}` any value of a map, `#...` a JSON pointer."""
    text = ""
    for step in path:
        if step in ("[]", "{}") or (isinstance(step, str) and not text and step.startswith("#")):
            text += str(step)
        elif isinstance(step, int):
            text += f"[{step}]"
        elif is_plain_key(step):
            text += f".{step}" if text else step
        else:
            quoted = json.dumps(step, ensure_ascii=False)
            text += f"[{quoted}]" if text else quoted
    return text


def in_any_item(place: str) -> str:
    """The name that a place shares with those in all other items: `lines[].total` for `lines[2].total`."""
    return re.sub(r"\[\d+\]", "[]", place)


def is_plain_key(key: str) -> bool:
    """Returns True if a key needs no quotes in a path."""
    return key.isidentifier() or (bool(key) and all(letter.isalnum() or letter in "_-" for letter in key))


def steps_of(pattern: str) -> list[str]:
    """The steps of a plan's name for a field or a branch: keys, `[]`, and marks such as `(b)` and `#2`."""
    return _STEP.findall(pattern)


def is_mark(step: str) -> bool:
    """Returns True if a step only keeps two names apart, and leads nowhere."""
    return step.startswith(("(", "#"))


def is_inside(pattern: str, outer: str) -> bool:
    """Returns True if a plan's name is that of a value, or of a part of it."""
    return pattern.startswith(outer) and pattern[len(outer) : len(outer) + 1] in ("", ".", "[", "(", "#")


def places_around(pattern: str) -> tuple[str, ...]:
    """The places of a plan's field and of all that holds it, outermost first.

    `lines[].total` is in `lines[]`, which is in `lines`.
    """
    ends = (step.end() for step in _STEP.finditer(pattern))
    return tuple(dict.fromkeys(place_in_answer(pattern[:end], ()) for end in ends))


def place_in_answer(pattern: str, items: Sequence[int]) -> str:
    """The place of a field in its answer: `lines[].total` of the third item is `lines[2].total`.

    `items` are the numbers of the loops around it, outermost first. That of a stacked document is left out.
    """
    return _place(pattern, items)[1]


def place_of(pattern: str, items: Sequence[int]) -> str:
    """The place of a field or a branch in a result. That of a stacked document begins with its number."""
    document, place = _place(pattern, items)
    if not document:
        return place
    if place == WHOLE:
        return document
    return document + (place if place.startswith("[") else f".{place}")


def _place(pattern: str, items: Sequence[int]) -> tuple[str, str]:
    """The number of the document, if there is one, and the place in its answer."""
    if not pattern:
        return "", MAIN
    steps = [step for step in steps_of(pattern) if not is_mark(step)]
    outside = max(len(items) - steps.count("[]"), 0)
    numbers = iter(items[outside:])
    path = (next(numbers, step) if step == "[]" else _key(step) for step in steps)
    return path_text(items[:outside]), path_text(path) or WHOLE


def _key(step: str) -> str:
    return json.loads(step) if step.startswith('"') else step


# ── what is wrong at a place ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Mismatch:
    """`path` leads from the whole value to the part that does not fit: `("lines", 2, "total")`."""

    path: tuple[str | int, ...]
    reason: str

    @property
    def where(self) -> str:
        """The path as people write it, `lines[2].total`; empty for the whole value."""
        return path_text(self.path)

    def below(self, step: str | int) -> Mismatch:
        """The same mismatch, with a path that begins one level further out."""
        return Mismatch((step, *self.path), self.reason)

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.path else self.reason
