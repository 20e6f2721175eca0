"""Strings inside structures keep their own token limits, whatever the model prefers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.grammar_guide import GrammarGuide, GrammarState
from pastalang.runtime.constraints.guide import GuideError
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.tokens import Tokens
from tests.properties.hole_types import SOURCE
from tests.properties.hostile import PICKS
from tests.properties.vocabularies import VOCABULARIES

NAMED: dict[str, t.Type] = {
    "Tree": t.Object((t.Field("label", t.String(max_tokens=4)), t.Field("below", t.Array(t.Named("Tree"), 0, 2))))
}
LIMITED: tuple[tuple[t.Type, int], ...] = (
    (t.Array(t.String(max_tokens=3), max_items=5), 3),
    (t.Array(t.String(max_tokens=2), 2, 2), 2),
    (t.Map(t.String(max_tokens=3), min_items=1, max_items=2), 3),
    (t.Array(t.Union((t.String(max_tokens=4), t.Null(), t.Integer())), 1, 3), 4),
    (t.Array(t.String(max_tokens=12, min_chars=2, max_chars=30), 1, 2, unique=True), 12),
    (t.Tuple((t.String(max_tokens=5), t.Integer(0, 9), t.String(max_tokens=5))), 5),
    (t.Array(t.String(max_tokens=12, format="email"), 1, 2), 12),
    (t.Array(t.Regex("[a-z]{2,40}|[0-9]{60}", max_tokens=6), 1, 3), 6),
    (t.Array(t.Verbatim("source", max_tokens=6), 1, 2), 6),
    (t.Named("Tree"), 4),
)


def _value_strings(raw: bytes) -> Iterator[tuple[int, int]]:
    """The strings that are no keys: where they begin and end."""
    at = 0
    while (at := raw.find(b'"', at)) >= 0:
        end = at + 1
        while end < len(raw) and raw[end] != 0x22:
            end += 2 if raw[end] == 0x5C else 1
        if raw[end + 1 : end + 2] != b":":
            yield at, end + 1
        at = end + 1


def _most_tokens(state: GrammarState, tokens: Tokens) -> int:
    """The tokens of the longest string, what opens and what closes it included."""
    ends, raw = [], b""
    for token in state._position.taken:
        raw += tokens.text(token) or b""
        ends.append(len(raw))
    starts = [0, *ends[:-1]]
    return max(
        (
            sum(first < end and last > begin for first, last in zip(starts, ends, strict=True))
            for begin, end in _value_strings(state.text.encode())
        ),
        default=0,
    )


def _written(type: t.Type, tokens: Tokens, pick: str, seed: int, limit: int = 90) -> GrammarState:
    guide = compile_guide(
        type, form=Form.JSON, follow=",\n  ", vocabulary=tokens, types=NAMED, sources={"source": SOURCE}
    )
    assert isinstance(guide, GrammarGuide)
    rng = random.Random(seed)
    state = guide.start(max_tokens=limit)
    while not state.is_finished:
        for token in state.forced() if rng.random() < 0.3 else ():
            state.advance(token)
        if not state.is_finished:
            state.advance(PICKS[pick](tokens_of(state.allowed()), tokens, rng))
    return state


@pytest.mark.parametrize("pick", PICKS)
@pytest.mark.parametrize("kind", VOCABULARIES)
def test_no_string_inside_a_structure_outgrows_its_limit(kind: str, pick: str) -> None:
    tokens = VOCABULARIES[kind]()
    for type, most in LIMITED:
        if kind == "bytes" and most < 12:
            most += 40  # a token is a byte there
            type = _wider(type)
        for limit in (90, 400):
            try:
                state = _written(type, tokens, pick, limit, limit)
            except GuideError as problem:
                assert "fits into" in str(problem), (type, pick)
                continue
            json.loads(state.text)
            assert _most_tokens(state, tokens) <= most, (type, pick, state.text)


def _wider(type: t.Type) -> t.Type:
    match type:
        case t.String(max_tokens=int(most)):
            return t.String(most + 40, type.min_chars, type.max_chars, type.pattern, type.format)
        case t.Array():
            return t.Array(_wider(type.item), type.min_items, type.max_items, type.unique)
        case _:
            return type


def test_a_string_that_its_limit_closed_is_marked() -> None:
    state = _written(t.Array(t.String(max_tokens=3), 1, 1), VOCABULARIES["byte-level"](), "constant", 1)
    assert state.truncated, state.text
    short = _written(t.Array(t.String(max_tokens=9, max_chars=1), 1, 1), VOCABULARIES["byte-level"](), "quote", 1)
    assert not short.truncated


@pytest.mark.parametrize(
    "type",
    [
        t.Array(t.Number(max_tokens=3)),
        t.Map(t.Integer(max_tokens=3)),
        t.Array(t.Array(t.Boolean(), max_tokens=9)),
        t.Array(t.Union((t.String(max_tokens=3), t.Literal("unknown")))),
    ],
)
def test_token_limits_that_cannot_be_enforced_inside_are_refused(type: t.Type) -> None:
    with pytest.raises(GuideError, match="cannot be enforced inside"):
        compile_guide(type, form=Form.JSON, follow="", vocabulary=VOCABULARIES["byte-level"]())


def test_a_string_that_has_no_value_within_its_limit_is_refused() -> None:
    with pytest.raises(GuideError, match="no value of a string fits into 1 token; the shortest takes 2"):
        compile_guide(
            t.Array(t.String(max_tokens=1)), form=Form.JSON, follow="", vocabulary=VOCABULARIES["byte-level"]()
        )
