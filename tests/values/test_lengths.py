"""Bounds known before decoding: the longest text of a type, its token limit and its first characters."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastalang import limits
from pastalang.limits import DEFAULT_LIMITS
from pastalang.program import types as t
from pastalang.values.json import decimal_text, parse_json, spell
from pastalang.values.lengths import default_max_tokens, first_characters, is_finite, max_length

SIZES = t.Union((t.Literal("S"), t.Literal("extra large"), t.Null()))
PAIR = t.Object((t.Field("a", t.Boolean()), t.Field("b", t.Integer(0, 100))))


@pytest.mark.parametrize(
    ("type", "longest"),
    [
        (t.Boolean(), len("false")),
        (t.Null(), len("null")),
        (t.Literal("é"), len('"é"'.encode())),
        (SIZES, len('"extra large"')),
        (t.Integer(-5, 100), len("100")),
        (t.Integer(minimum=0), None),
        (t.Number(Decimal(0), Decimal(10), multiple_of=Decimal("0.25")), len("10.00") + 1),
        (t.Number(Decimal(0), Decimal(10)), None),
        (t.Temporal(t.Moment.DATE), len('"2024-02-29"')),
        (t.Temporal(t.Moment.DATETIME), len('"2024-02-29T23:59:59.123456+02:00"')),
        (t.Temporal(t.Moment.TIME), len('"23:59:59.123456+02:00"')),
        (t.Uuid(), 38),
        (t.String(), None),
        (t.String(max_chars=2), len(r'"\ud83d\ude00\ud83d\ude00"')),
        (t.Regex("[a-z]{2}"), 2 + 2),
        (t.String(pattern="[a-z]{2}"), 2 + 2),
        (t.Regex("[é]{2}"), 2 + 2 * 12),
        (t.Regex("a*"), None),
        (PAIR, len('{"a": false, "b": 100}')),
        (t.Array(t.Boolean(), max_items=2), len("[false, false]")),
        (t.Array(t.Boolean()), None),
        (t.Tuple((t.Null(), t.Boolean())), len("[null, false]")),
        (t.Anything(), None),
    ],
)
def test_the_longest_spelling_of_a_closed_type_is_known(type: t.Type, longest: int | None) -> None:
    assert max_length(type) == longest


@pytest.mark.parametrize(
    ("type", "tokens"),
    [
        (t.String(max_tokens=7), 7),
        (t.String(), DEFAULT_LIMITS[0].string),
        (t.String(max_chars=100), DEFAULT_LIMITS[0].string),
        (t.String(max_chars=500), 127),
        (t.String(max_chars=2_083, format="url"), DEFAULT_LIMITS[0].string),
        (t.String(min_chars=300), 302),
        (t.String(max_chars=1), 1 * 4 + 2),
        (t.String(pattern="[A-Z]{2,5}"), 5 + 2),
        (t.Integer(0, 100), 3),
        (t.Integer(), limits.DEFAULT_NUMBER_TOKENS),
        (t.Number(), limits.DEFAULT_NUMBER_TOKENS),
        (t.Integer(minimum=10**30), 31 + 4),
        (t.Integer(0, 10**30), 31),
        (t.Number(exclusive_maximum=Decimal("1e-20"), exclusive_minimum=Decimal(0)), 22 + 4),
        (SIZES, len('"extra large"')),
        (t.Union((t.Literal("x" * 300), t.Null())), 302),
        (t.Union((t.String(), t.Null())), DEFAULT_LIMITS[0].string),
        (t.Array(t.String()), DEFAULT_LIMITS[0].structure),
        (t.Anything(), DEFAULT_LIMITS[0].structure),
    ],
)
def test_a_hole_without_a_limit_gets_the_tokens_that_its_type_needs(type: t.Type, tokens: int) -> None:
    assert default_max_tokens(type) == tokens


def test_quotes_need_no_tokens_in_running_text() -> None:
    assert default_max_tokens(t.Literal("abc"), quoted=False) == 3
    assert default_max_tokens(t.Literal("abc")) == 5


def test_finite_types_are_those_whose_values_are_written_out() -> None:
    assert is_finite(SIZES)
    assert is_finite(t.Object((t.Field("a", SIZES),)))
    assert not is_finite(t.Integer(0, 3))
    assert not is_finite(t.Union((SIZES, t.String())))


@pytest.mark.parametrize(
    ("type", "first"),
    [
        (t.Integer(), "-0123456789"),
        (t.Integer(minimum=0), "0123456789"),
        (SIZES, '"n'),
        (PAIR, "{"),
        (t.Union((t.Array(t.Null()), t.Boolean())), "[tf"),
    ],
)
def test_the_first_characters_of_a_spelling_are_known(type: t.Type, first: str) -> None:
    assert first_characters(type) == frozenset(first)


def test_a_recursive_type_has_first_characters_too() -> None:
    tree = t.Object((t.Field("child", t.Union((t.Named("Tree"), t.Null()))),))
    assert first_characters(t.Named("Tree"), {"Tree": tree}) == frozenset("{")
    assert first_characters(t.Named("Loop"), {"Loop": t.Named("Loop")}) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.50"), "1.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.0"), "0"),
        (Decimal("0.000001"), "0.000001"),
        (Decimal("1e300"), "1e300"),
        (Decimal("1.5e-200"), "1.5e-200"),
        (True, "true"),
        (10**30, "1" + "0" * 30),
        ("ä\n", '"ä\\n"'),
    ],
)
def test_literals_are_spelled_in_one_way(value: t.Scalar, text: str) -> None:
    assert spell(value) == text


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_written_digit_for_digit(value: Decimal) -> None:
    text = decimal_text(value)
    assert Decimal(text) == value
    assert parse_json(text) == value
    assert decimal_text(Decimal(text)) == text


def test_true_is_not_the_number_one() -> None:
    assert t.Literal(True) != t.Literal(1)
    assert len({t.Literal(True), t.Literal(1), t.Literal(Decimal(1))}) == 2


def test_a_pattern_of_plain_characters_is_given_a_token_per_character_and_its_quotes() -> None:
    assert default_max_tokens(t.Regex("[A-Z]{2}-[0-9]{4}")) == 9
    assert default_max_tokens(t.Regex("[a-z]{80}")) == 82
    assert default_max_tokens(t.Regex("[a-z]{1,900}")) == DEFAULT_LIMITS[0].string


def test_a_pattern_of_characters_that_json_escapes_keeps_the_usual_room() -> None:
    assert default_max_tokens(t.Regex('["\\\\]{30}')) == DEFAULT_LIMITS[0].string
