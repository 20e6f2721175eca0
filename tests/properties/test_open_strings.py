"""Inside strings of structures, the computed mask equals the mask of the grammar, which is the oracle."""

from __future__ import annotations

import random

import pytest

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.grammar_guide import GrammarGuide, GrammarState
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.open_strings import number_key
from pastalang.runtime.constraints.tokens import Tokens
from tests.properties.hole_types import SOURCE
from tests.properties.hostile import PICKS, TYPES
from tests.properties.vocabularies import VOCABULARIES

FOLLOWS = ("", ",\n  ", "}")
_SHORT, _MIDDLE = t.String(max_chars=2), t.String(min_chars=3, max_chars=7)
HOLDING: tuple[t.Type, ...] = (
    t.Array(t.String(), 0, 4),
    t.Array(_SHORT, 2, 3),
    t.Array(_MIDDLE),
    t.Array(t.String(min_chars=2), unique=True),
    t.Array(t.Union((t.String(max_chars=4), t.Null(), t.Integer())), 1, 3),
    t.Array(t.Union((t.Array(t.String(max_chars=3)), t.Object((t.Field("a", _MIDDLE),))))),
    t.Map(t.String(max_chars=5), max_items=3),
    t.Map(t.Array(_SHORT), key_pattern="[a-c]{1,2}"),
    t.Object((t.Field("a", t.String()), t.Field('q"b', _MIDDLE), t.Field("c", t.Array(_SHORT, 0, 2)))),
    t.Array(t.String(max_chars=0), 1, 2),
    t.Union((t.String(max_chars=9), t.Array(t.Integer()))),
    t.Array(t.Anything(), 1, 3),
    t.Object((t.Field("a", t.Anything()), t.Field("b", t.Map(t.Union((t.Anything(),)))))),
    t.Array(t.String(format="email"), 1, 3),
    t.Array(t.String(format="url"), 1, 3),
    t.Array(t.Temporal(t.Moment.DATE), 1, 3),
    t.Array(t.Regex('[a-c"\\\\\\n]{1,3}(, [a-c]{2})*'), 1, 3),
    t.Array(t.Union((t.Regex("[^a]{2}|(é|😀|\\x0b)+"), t.Null())), 1, 4),
    t.Map(t.String(pattern="[a-z ]+[a-z]", min_chars=3, max_chars=6), max_items=3),
    t.Object((t.Field("a", t.Uuid()), t.Field("b", t.String(format="hostname", max_chars=20)))),
    t.Object((t.Field("a", t.String(format="email", pattern="[a-f@.]*")), t.Field("b", t.Regex("|x*")))),
    t.Named("Tree"),
)
ASKED: tuple[t.Type, ...] = (  # what may be one of several strings is asked of the grammar; there may be no string
    t.Anything(),
    t.Array(t.Union((t.Literal("ab"), t.String(max_chars=3)))),
    t.Tuple((_SHORT, t.Integer(), t.String())),
)


def _check(type: t.Type, follow: str, tokens: Tokens, rng: random.Random) -> int:
    """How many masks were compared inside strings."""
    guide = compile_guide(
        type, form=Form.JSON, follow=follow, vocabulary=tokens, types=TYPES, sources={"source": SOURCE}
    )
    assert isinstance(guide, GrammarGuide) and guide.open_strings is not None
    return sum(_walk(guide, tokens, rng, (type, follow)) for _ in range(2))


def _walk(guide: GrammarGuide, tokens: Tokens, rng: random.Random, told: object) -> int:
    every = [token for token, text in enumerate(tokens.vocabulary.spelling) if text is not None]
    state, pick, compared = guide.start(max_tokens=80), rng.choice(list(PICKS.values())), 0
    while not state.is_finished and state.remaining > 30:
        quick = state.allowed()
        if _is_put_together(state, guide):
            asked = guide.matcher_after(state._position.taken)
            assert asked is not None
            taken = {token for token in every if asked.would_take(token)}
            assert set(tokens_of(quick).tolist()) - tokens.vocabulary.ends == taken, (told, state.text)
            compared += 1
        state.advance(pick(tokens_of(state.allowed()), tokens, rng) if rng.random() < 0.5 else _any(state, rng))
        assert _ends(state, guide), (told, state.text)
    return compared


def _ends(state: GrammarState, guide: GrammarGuide) -> bool:
    """Whether the ending that is known, if one is, completes the value."""
    ending, behind = state._position.ending, guide.matcher_after(state._position.taken)
    assert behind is not None
    return state.is_finished or ending is None or (behind.take(ending) and behind.accepts)


def _any(state: GrammarState, rng: random.Random) -> int:
    return int(rng.choice(tokens_of(state.allowed())))


def _is_put_together(state: GrammarState, guide: GrammarGuide) -> bool:
    """Or shared with other numbers."""
    assert guide.open_strings is not None
    if number_key(guide.open_strings._type, TYPES, state._position.prefix) is not None:
        return True
    opened = guide.open_strings.opened(state._position.prefix, None)
    return opened is not None and opened.machine is not None


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_the_mask_of_an_open_string_equals_that_of_the_grammar(kind: str) -> None:
    tokens, rng, first = VOCABULARIES[kind](), random.Random(3), list(VOCABULARIES).index(kind)
    for type in (*HOLDING, *ASKED)[first :: len(VOCABULARIES)]:
        found = sum(_check(type, rng.choice(FOLLOWS), tokens, rng) for _ in range(4))
        assert found or type in ASKED, type


@pytest.mark.long
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("seed", range(5))
def test_the_mask_of_an_open_string_equals_that_of_the_grammar_at_length(kind: str, seed: int) -> None:
    tokens, rng = VOCABULARIES[kind](), random.Random(f"open strings {seed}")
    for type in (*HOLDING, *ASKED):
        for follow in FOLLOWS:
            for _ in range(6):
                _check(type, follow, tokens, rng)
