"""Whether two trees say the same: everything but spans, comments and blank lines."""

from __future__ import annotations

import dataclasses

from pastalang.grammar.nodes import Trivia
from pastalang.source import Span

IGNORED = (Span, Trivia)


def says_the_same(left: object, right: object) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, IGNORED):
        return True
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(says_the_same, left, right))
    if dataclasses.is_dataclass(left) and not isinstance(left, type):
        names = (field.name for field in dataclasses.fields(left))
        return all(says_the_same(getattr(left, name), getattr(right, name)) for name in names)
    return left == right
