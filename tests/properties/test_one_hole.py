"""Parts of a JSON Schema that are one hole: whatever a model writes there is a value of the schema."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.grammar_guide import GrammarGuide
from pastalang.values.fit import read
from pastalang.values.json import spell
from pastalang.values.lengths import has_numbers
from pastalang.values.patterns import STANDARD_FORMATS, whole_pattern
from pastalang.values.schema.importer import type_of_schema
from tests.properties.hostile import PICKS
from tests.properties.test_guides import decode
from tests.properties.vocabularies import byte_level

LIMITS = (12, 40, 70)


def guide_of(part: Any) -> tuple[GrammarGuide, t.Type]:
    """The guide of the part as one hole, nothing of which is left to the check."""
    found = type_of_schema({"allOf": [part, {}]})
    why = "is enforced as one hole because of `#/allOf`, so its parts are not decoded in parallel"
    assert [note.text for note in found.notes] == [why]
    return compiled(found.type), found.type


def compiled(type: t.Type) -> GrammarGuide:
    guide = compile_guide(type, form=Form.JSON, follow="", vocabulary=byte_level())
    assert isinstance(guide, GrammarGuide)
    return guide


def check_written(guide: GrammarGuide, type: t.Type) -> None:
    """Every hostile model writes values of the type."""
    tokens, rng = byte_level(), random.Random(0)
    states = [decode(guide, limit, pick, tokens, rng) for pick in PICKS.values() for limit in LIMITS]
    texts = {state.text for state in states if state is not None}
    assert texts and not [text for text in texts if not read(text, type).fits]


@pytest.mark.parametrize("name", sorted(STANDARD_FORMATS))
def test_a_format_holds(name: str) -> None:
    check_written(*guide_of({"type": "string", "format": name}))


PATTERNS = (
    *(r"^\s\S$", r"^\S\s*$", r"^[\s]$", r"^\d\D\w\W$", "^é.$", r"^[[a]$", "^[a-z&&b]$", "^[a~~b]$", "^[+--]$"),
    *(r"\0", r'^\0[^"]$', r"^(?:\0|[\x01-\x1f])$"),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_holds_as_it_is_read(pattern: str) -> None:
    check_written(*guide_of({"type": "string", "pattern": pattern}))
    keys = t.Map(t.Null(), whole_pattern(pattern), max_items=2)
    check_written(compiled(keys), keys)


BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
NUMBERS = [Decimal(text) for text in ("0", "1", "-1", "3", "-3", "0.5", "-0.5", "2.25", "3.5", "-3.5", "0.1", "100.5")]
NUMBERS += [Decimal(text) for text in ("0.001", "-0.001", "1e-9", "1e15", "-1e15", "0.3000000000000000000001")]


@st.composite
def bounds(draw: st.DrawFn) -> dict[str, Decimal]:
    low, high = sorted(draw(st.lists(st.sampled_from(NUMBERS), min_size=2, max_size=2)))
    least = draw(st.sampled_from(["minimum", "exclusiveMinimum", ""]))
    most = draw(st.sampled_from(["maximum", "exclusiveMaximum", ""]))
    return {keyword: bound for keyword, bound in ((least, low), (most, high)) if keyword}


def near(bound: Decimal) -> Iterator[Decimal]:
    yield from (bound + step for step in map(Decimal, ("0", "1", "-1", "0.25", "-0.25", "1e-9", "-1e-9")))
    yield from (round(bound, places) for places in range(1, 4))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.sampled_from([None, Decimal(1)]), bounds())
@example(None, {"exclusiveMinimum": Decimal(0), "maximum": Decimal("0.5")})
@example(None, {"minimum": Decimal("-3.5"), "exclusiveMaximum": Decimal(-3)})
def test_bounds_hold(step: Decimal | None, limits: dict[str, Decimal]) -> None:
    given = (limits.get(keyword) for keyword in BOUNDS)
    assume(limits and has_numbers(t.Number(*given, multiple_of=step)))
    guide, type = guide_of({"type": "number" if step is None else "integer", **limits})
    check_written(guide, type)
    for value in {one for bound in limits.values() for one in near(bound)}:
        text, is_taken = spell(value), guide.takes(spell(value))
        assert is_taken == read(text, type).fits or (not is_taken and len(value.as_tuple().digits) > 15), text


# ── what no grammar expresses is checked ─────────────────────────────────────────────────────────────────

KEYS = st.sampled_from(["^a", "b$", "^[a-z]+$", "^x-", r"^\\d{2}$", "ab", ".", "^(?:a|b)$", "^$", "[[]"])
INNER = st.sampled_from([{}, {"type": "integer"}, {"maximum": 3}, {"const": "a"}])
OF_KEYS = st.fixed_dictionaries(
    {"patternProperties": st.dictionaries(KEYS, INNER, min_size=1, max_size=3)},
    optional={
        "additionalProperties": st.booleans(),
        "properties": st.dictionaries(st.sampled_from(["a", "ab"]), INNER),
    },
)
OBJECTS = st.recursive(
    OF_KEYS | st.sampled_from([{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}]),
    lambda inner: st.builds(
        lambda keyword, arms, own: {**own, keyword: arms},
        st.sampled_from(["allOf", "anyOf"]), st.lists(inner, min_size=1, max_size=2), OF_KEYS | st.just({}),
    ),
    max_leaves=4,
)  # fmt: skip
FAR = [sign * Decimal(text) for sign in (1, -1) for text in ("1e17", "999999999999999999", "1e18", "1e19", "1e400")]
STEPS = [Decimal(text) for text in ("0.01", "0.07", "33.33", "1e-10", "65537", "1e10", "0.1000000000000000000001")]
NUMERIC = st.one_of(
    st.builds(lambda keyword, bound: {keyword: bound}, st.sampled_from(sorted(BOUNDS)), st.sampled_from(FAR)),
    st.sampled_from(STEPS).map(lambda step: {"multipleOf": step}),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    OBJECTS.map(lambda part: {"type": "object", **part}) | NUMERIC.map(lambda part: {"type": "number", **part}), OF_KEYS
)
def test_what_is_imported_as_one_hole_can_be_decoded(part: dict[str, Any], other: dict[str, Any]) -> None:
    defined = {"one": {"type": "object", "patternProperties": {"^a": {"maximum": 2}}}, "two": other}
    compiled(type_of_schema({"allOf": [part, {}], "$defs": defined}).type)
