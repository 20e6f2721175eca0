"""The regular expressions that can be enforced: what is read, what is refused and where, and that spelling keeps it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastalang.program.regex import Lengths, RegexError, lengths, parse_regex, spell


@pytest.mark.parametrize(
    ("pattern", "shortest", "longest"),
    [
        ("abc", 3, 3),
        ("a|bcd", 1, 3),
        ("(ab){2,3}", 4, 6),
        ("a*", 0, None),
        ("(a?){5}", 0, 5),
        ("^[A-Z]{2}-[0-9]+$", 4, None),
        ("", 0, 0),
        ("(){9}", 0, 0),
    ],
)
def test_the_lengths_of_matches_are_known(pattern: str, shortest: int, longest: int | None) -> None:
    assert lengths(parse_regex(pattern)) == Lengths(shortest, longest)


def test_a_class_that_takes_nothing_matches_nothing() -> None:
    assert lengths(parse_regex(r"[^\s\S]")) is None
    assert lengths(parse_regex(r"a[^\d\D]?")) == Lengths(1, 1)


@pytest.mark.parametrize(
    ("pattern", "blamed"),
    [
        ("a(?=b)", "(?="),
        ("(?<!a)b", "(?<!"),
        (r"(a)\1", r"\1"),
        (r"\bword", r"\b"),
        ("a^b", "^"),
        ("a$b", "$"),
        ("(?i)a", "(?i"),
        ("(?P<x>a)", "(?P<x>"),
        (r"\p{L}", r"\p"),
        ("[[:alpha:]]", "[:"),
        ("a{2}{3}", "}"),
        ("a{3,1}", "{3,1}"),
        ("a{1001}", "{1001}"),
        ("*a", "*"),
        ("(a", "("),
        ("a)", ")"),
        ("[a", "["),
        ("[z-a]", "z-a"),
        ("a++", "+"),
    ],
)
def test_a_refusal_points_at_what_is_to_blame(pattern: str, blamed: str) -> None:
    with pytest.raises(RegexError) as caught:
        parse_regex(pattern)
    assert pattern[caught.value.offset : caught.value.offset + caught.value.length] == blamed


def test_repetitions_that_multiply_are_refused() -> None:
    parse_regex("([a-z]{100}){100}")
    with pytest.raises(RegexError, match="multiply"):
        parse_regex("(([a-z]{100}){100}){100}")


PATTERNS = st.from_regex(
    r"\A(?:[a-c.]|\[[\^]?[a-c]-?[d-f]\]|\\[dws.]|\((?:a|b\|c|[a-d]{2})\)|[a-c][*+?]|x\{1,3\}){1,6}\Z"
)


@given(PATTERNS, st.text(alphabet="abcdef xyz019._-\n", max_size=8))
def test_the_spelling_matches_what_the_pattern_matches(pattern: str, text: str) -> None:
    ours = re.fullmatch(spell(parse_regex(pattern)), text) is not None
    assert ours == (re.fullmatch(pattern, text, re.ASCII) is not None)


@given(PATTERNS, st.text(alphabet="abcd x0._", max_size=8))
def test_no_match_is_shorter_or_longer_than_said(pattern: str, text: str) -> None:
    bounds = lengths(parse_regex(pattern))
    assert bounds is not None
    if re.fullmatch(pattern, text, re.ASCII):
        assert bounds.shortest <= len(text)
        assert bounds.longest is None or len(text) <= bounds.longest


@given(st.text(alphabet="ab|()[]{}*+?^$\\.-,0123dwsbpPux:=!<>", max_size=12))
def test_any_text_is_read_or_refused(pattern: str) -> None:
    try:
        re.compile(spell(parse_regex(pattern)))
    except RegexError as problem:
        assert 0 <= problem.offset <= len(pattern)
