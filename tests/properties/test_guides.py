"""With random logits, every value ends within its limit, can be read, and fits its type."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide, ends_by_itself
from pastalang.runtime.constraints.guide import Guide, NoEndingFits, State
from pastalang.runtime.constraints.masks import allows, tokens_of
from pastalang.runtime.constraints.seam import reached
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.values.fit import read
from tests.properties.hole_types import SOURCE
from tests.properties.hostile import PICKS, SIMPLE, STRUCTURES, TYPES, Pick
from tests.properties.vocabularies import VOCABULARIES

FOLLOWS = ("", ",\n  ", "\n}", ". The end")
LIMITS = (1, 2, 3, 4, 6, 9, 14, 24, 48)
_GUIDES: dict[object, Guide] = {}


def _guide(type: t.Type, form: Form, follow: str, tokens: Tokens) -> Guide:
    key = (type, form, follow, id(tokens))
    if key not in _GUIDES:
        sources = {"source": SOURCE}
        _GUIDES[key] = compile_guide(type, form=form, follow=follow, vocabulary=tokens, types=TYPES, sources=sources)
    return _GUIDES[key]


def decode(guide: Guide, limit: int, pick: Pick, tokens: Tokens, rng: random.Random) -> State | None:
    """None where the guide says beforehand that nothing fits."""
    try:
        state: State = guide.start(max_tokens=limit)
    except NoEndingFits:
        assert guide.shortest > limit
        return None
    taken = 0
    while not state.is_finished:
        forced = state.forced() if rng.random() < 0.3 else ()
        if forced:
            for token in forced:
                assert allows(state.allowed(), token)
                state.advance(token)
                taken += 1
            continue
        allowed = tokens_of(state.allowed())
        assert len(allowed), f"nothing is allowed behind {state.text!r}"
        if rng.random() < 0.1:
            _go_there(state, int(rng.choice(allowed)), allowed)
        state.advance(pick(allowed, tokens, rng))
        taken += 1
    assert taken <= limit
    return state


def _go_there(state: State, token: int, allowed: np.ndarray) -> None:
    """A copy that takes a token changes nothing."""
    text, other = state.text, state.fork()
    other.advance(token)
    assert state.text == text and not state.is_finished
    assert tokens_of(state.allowed()).tolist() == allowed.tolist()


def _cases() -> Iterator[tuple[t.Type, Form, str, str, int]]:
    forms = [(type, form) for type in SIMPLE for form in Form] + [(type, Form.JSON) for type in STRUCTURES]
    for (type, form), follow, pick, limit in product(forms, FOLLOWS, PICKS, LIMITS):
        yield type, form, follow, pick, limit


def _check(kind: str, count: int, seed: int) -> None:
    tokens, rng = VOCABULARIES[kind](), random.Random(seed)
    cases, tried = list(_cases()), 0
    while tried < count:
        type, form, follow, pick, limit = rng.choice(cases)
        state = decode(_guide(type, form, follow, tokens), limit, PICKS[pick], tokens, rng)
        if state is None:
            continue
        tried += 1
        found = read(state.text, type, TYPES, quoted=form is Form.JSON, sources={"source": SOURCE})
        assert found.fits, (type, form, follow, pick, limit, state.text, found.mismatches)


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_whatever_the_logits_are_the_value_fits_its_type_and_its_limit(kind: str) -> None:
    _check(kind, 1_700, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("seed", range(1, 11))
def test_whatever_the_logits_are_at_length(kind: str, seed: int) -> None:
    _check(kind, 3_400, seed)


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_what_no_token_reaches_of_the_following_text_changes_no_mask(kind: str) -> None:
    tokens, rng = VOCABULARIES[kind](), random.Random(0)
    types = [type for type in SIMPLE if ends_by_itself(type, Form.JSON, TYPES)]
    assert len(types) > 10
    for type, follow, limit in product(types, (',\n  "name": ', ',\n  "été": ', "\n}", " end"), (6, 24)):
        short = reached(follow, tokens)
        guides = [_guide(type, Form.JSON, text, tokens) for text in (follow, short)]
        if guides[0].shortest > limit:
            continue
        one, other = (guide.start(max_tokens=limit) for guide in guides)
        while not one.is_finished:
            allowed = tokens_of(one.allowed())
            assert (one.allowed() == other.allowed()).all() and one.forced() == other.forced()
            crossing = [token for token in allowed.tolist() if b'"' in (tokens.text(token) or b"")[1:]]
            token = rng.choice(crossing if crossing and rng.random() < 0.3 else allowed.tolist())
            assert one.advance(token) == other.advance(token)
        assert other.is_finished and (one.text, one.truncated) == (other.text, other.truncated)
