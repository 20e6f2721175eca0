"""Random types, nested as deeply as in real programs: a guide accepts the values that fit, and only those."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import Guide, GuideError
from pastalang.runtime.constraints.masks import allows
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.values.fit import read
from pastalang.values.json import JsonValue, write_json
from tests.properties.hole_types import ALL_TYPES, NAMED, SOURCE, near
from tests.properties.hostile import PICKS
from tests.properties.test_guides import FOLLOWS, LIMITS, decode
from tests.properties.vocabularies import VOCABULARIES

SOURCES = {"source": SOURCE}
_MANY_DIGITS = re.compile("[0-9]{16}")  # are read, and never written without bounds that ask for them
UNHURRIED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def guide_of(type: t.Type, tokens: Tokens, follow: str) -> Guide:
    """A type that is refused is none of the cases: that is said before anything is decoded."""
    try:
        return compile_guide(type, form=Form.JSON, follow=follow, vocabulary=tokens, types=NAMED, sources=SOURCES)
    except GuideError:
        assume(False)
        raise


def spaced(value: JsonValue, orders: list[tuple[str, ...]]) -> str:
    """JSON as holes spell it: one space behind commas and colons, the keys of an object type in their order."""
    if isinstance(value, list):
        return f"[{', '.join(spaced(part, orders) for part in value)}]"
    if not isinstance(value, dict):
        return write_json(value)
    order = next((keys for keys in orders if set(keys) == set(value)), tuple(value))
    return "{" + ", ".join(f"{write_json(key)}: {spaced(value[key], orders)}" for key in order) + "}"


def orders_in(type: t.Type) -> Iterator[tuple[str, ...]]:
    match type:
        case t.Object(fields=fields):
            yield tuple(field.key for field in fields)
            parts = tuple(field.type for field in fields)
        case t.Array(item=part) | t.Map(value=part):
            parts = (part,)
        case t.Tuple(items=parts) | t.Union(arms=parts):
            pass
        case _:
            parts = ()
    for part in parts:
        yield from orders_in(part)


def takes(guide: Guide, text: str, tokens: Tokens) -> bool:
    """Whether the value can be written token by token, always with the longest that may come, and ended there."""
    state, rest = guide.start(max_tokens=2_000), text.encode()
    while not state.is_finished:
        mask = state.allowed()
        fitting = (tokens.ids.get(rest[:size]) for size in range(min(len(rest), tokens.longest), 0, -1))
        ending = None if rest else min(tokens.vocabulary.ends)
        token = next((one for one in fitting if one is not None and allows(mask, one)), ending)
        if token is None or not allows(mask, token):
            return False
        state.advance(token)
        rest = rest[len(tokens.text(token) or b"") :]
    return state.text == text


def check_values(data: st.DataObject, kind: str) -> None:
    type, tokens = data.draw(ALL_TYPES), VOCABULARIES[kind]()
    guide = guide_of(type, tokens, follow="")
    orders = [keys for one in (type, *NAMED.values()) for keys in orders_in(one)]
    for value in data.draw(st.lists(near(type), min_size=1, max_size=4)):
        text = spaced(value, orders)
        if _MANY_DIGITS.search(text):
            continue
        assert takes(guide, text, tokens) == read(text, type, NAMED, sources=SOURCES).fits, text


def check_answers(data: st.DataObject, kind: str) -> None:
    type, tokens = data.draw(ALL_TYPES), VOCABULARIES[kind]()
    guide = guide_of(type, tokens, follow=data.draw(st.sampled_from(FOLLOWS)))
    for _ in range(3):
        pick, limit = data.draw(st.sampled_from(sorted(PICKS))), data.draw(st.sampled_from(LIMITS))
        state = decode(guide, limit, PICKS[pick], tokens, random.Random(data.draw(st.integers(0, 999))))
        if state is not None:
            found = read(state.text, type, NAMED, sources=SOURCES)
            assert found.fits, (pick, limit, state.text, found.mismatches)


@pytest.mark.parametrize("kind", VOCABULARIES)
@settings(max_examples=40, suppress_health_check=UNHURRIED)
@given(data=st.data())
def test_a_guide_takes_what_fits_and_nothing_else(kind: str, data: st.DataObject) -> None:
    check_values(data, kind)


@pytest.mark.parametrize("kind", VOCABULARIES)
@settings(max_examples=40, suppress_health_check=UNHURRIED)
@given(data=st.data())
def test_with_random_logits_the_value_fits_a_random_type(kind: str, data: st.DataObject) -> None:
    check_answers(data, kind)


@pytest.mark.long
@pytest.mark.parametrize("check", [check_values, check_answers])
@pytest.mark.parametrize("kind", VOCABULARIES)
@settings(max_examples=6_000, suppress_health_check=UNHURRIED)
@given(data=st.data())
def test_random_types_at_length(check: object, kind: str, data: st.DataObject) -> None:
    assert callable(check)
    check(data, kind)
