"""Guides for the holes of a plan, compiled once each.

The key of a guide holds a number in place of its type, so a large type is hashed once and not at every lookup.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any, Final

from pastalang.plan.branches import Form, Hole, Text
from pastalang.plan.plan import Plan
from pastalang.plan.structure import leads_of, walk_plan
from pastalang.runtime.constraints.compile import compile_guide, ends_by_itself
from pastalang.runtime.constraints.guide import Guide, GuideError
from pastalang.runtime.constraints.seam import reached
from pastalang.runtime.constraints.tokens import BoundedCache, LruCache, Tokens
from pastalang.values.quotes import quoted_sources

MOST: Final = 512  # guides that are kept, with the masks that they have made: 60 kB each and more
MOST_QUOTING: Final = 256  # of those that quote an input: the next document has another text
_KEYS: Final = 2_048  # small things that are kept for a type
_TAG = re.compile(r"</?([a-z]+)")


class GuideCache:
    """A `MakeGuide` for one vocabulary. Keeps the most recently used guides.

    Raises `GuideError` without a place: whoever opens the hole knows the item, and turns it into an error of the field.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._guides: LruCache[Any, Guide] = LruCache(MOST)
        self._quoting: LruCache[Any, Guide] = LruCache(MOST_QUOTING)
        self._number = ValueNumbers()
        self._names: BoundedCache[tuple[int, int], tuple[str, ...]] = BoundedCache(_KEYS)  # of texts that a type quotes
        self._follows: BoundedCache[tuple[int, int, Form, str], str] = BoundedCache(_KEYS)
        self._tags: tuple[Plan, tuple[str, ...]] | None = None  # of the most recent plan

    def __call__(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Guide:
        quoted, forbidden = self._quoted(hole, plan, sources), self._forbidden(plan)
        types = self._number(hole.type), self._number(plan.types)
        follow = self._follows.cached((*types, hole.form, hole.follow), lambda: self._follow(hole, plan))
        key = (types, hole.form, follow, hole.space, tuple(quoted.items()), forbidden)

        def make() -> Guide:
            guide = compile_guide(
                hole.type, form=hole.form, follow=follow, vocabulary=self._tokens, types=dict(plan.types),
                sources=quoted, forbidden=forbidden,
            )  # fmt: skip
            return guide.after(hole.space) if hole.space else guide

        return (self._quoting if quoted else self._guides).cached(key, make)

    def _follow(self, hole: Hole, plan: Plan) -> str:
        """The text after the hole, as far as its guide depends on it."""
        if ends_by_itself(hole.type, hole.form, dict(plan.types)):
            return reached(hole.follow, self._tokens)
        return hole.follow

    def _quoted(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Mapping[str, str]:
        key = self._number(hole.type), self._number(plan.types)
        names = self._names.cached(key, lambda: tuple(sorted(quoted_sources(hole.type, dict(plan.types)))))
        for missing in (name for name in names if name not in sources):
            raise GuideError(f"there is no text `{missing}` to quote from")
        return {name: sources[name] for name in names}

    def _forbidden(self, plan: Plan) -> tuple[str, ...]:
        """The control tags of the plan. Free text of the model must not look like one of them."""
        if self._tags is None or self._tags[0] is not plan:
            self._tags = plan, control_tags(plan)
        return self._tags[1]


def control_tags(plan: Plan) -> tuple[str, ...]:
    """How the control tags of a plan begin and end, without what varies in them. Weights that were not trained for them
    write variants of their own, such as `</async/>`."""
    written = (part for _, _, segment in walk_plan(plan) for part in (segment, *leads_of(segment)))
    hidden = (part.text for part in written if isinstance(part, Text) and not part.shown)
    names = {name for text in hidden for name in _TAG.findall(text)}
    return tuple(sorted(f"{begin}{name}" for name in names for begin in ("<", "</")))


class ValueNumbers:
    """A number for every value, the same for equal ones: a large type is hashed once and not at every lookup."""

    def __init__(self) -> None:
        self._next = 0
        self._seen: dict[int, tuple[Hashable, int]] = {}  # by identity; the object is held, so it stays the same
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, value: Hashable) -> int:
        known = self._seen.get(id(value))
        if known is not None:
            return known[1]
        if len(self._seen) >= _KEYS:  # what is numbered anew from here on is no number that was given before
            self._seen.clear()
            self._numbers.clear()
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self._next
            self._next += 1
        self._seen[id(value)] = (value, number)
        return number
