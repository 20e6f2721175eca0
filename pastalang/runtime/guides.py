"""Guides for the holes of a plan, compiled once each: a tokenizer's vocabulary comes in, a `MakeGuide` goes out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from pastalang.plan.plan import Hole, Plan
from pastalang.program import types as t
from pastalang.runtime.decode.guide import Guide, GuideError
from pastalang.runtime.decode.guides import compile_guide
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.errors import RunError


class GuideShelf:
    """Keeps at most `limit` guides; those not used for longest go first."""

    def __init__(self, tokens: Tokens, *, limit: int = 2_000) -> None:
        self._tokens = tokens
        self._limit = limit
        self._known: OrderedDict[Any, Guide] = OrderedDict()

    def __call__(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Guide:
        text = self._quoted(hole, plan, sources)
        key = (hole.type, hole.form, hole.follow, text, plan.types)
        guide = self._known.get(key)
        if guide is None:
            guide = self._known[key] = self._compile(hole, plan, text)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return guide

    def _compile(self, hole: Hole, plan: Plan, text: str | None) -> Guide:
        try:
            return compile_guide(
                hole.type, form=hole.form, follow=hole.follow, vocabulary=self._tokens, types=dict(plan.types),
                source_text=text,
            )  # fmt: skip
        except GuideError as problem:
            raise RunError(str(problem), plan=plan, field=hole.field, span=hole.span) from problem

    def _quoted(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> str | None:
        names = {part.source for part in _parts(hole.type) if isinstance(part, t.Verbatim)}
        known = [sources[name] for name in names if name in sources]
        if len(known) < len(names):
            [missing, *_] = names - sources.keys()
            raise RunError(f"there is no text `{missing}` to quote from", plan=plan, field=hole.field, span=hole.span)
        return known[0] if known else None


def _parts(type: t.Type) -> Iterator[t.Type]:
    yield type
    if isinstance(type, t.Union):
        for arm in type.arms:
            yield from _parts(arm)
    elif isinstance(type, t.Array):
        yield from _parts(type.item)
