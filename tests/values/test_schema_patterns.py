"""A pattern that matches anywhere becomes a pattern for whole values with the same meaning."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastalang.program.regex import RegexError
from pastalang.values.patterns import matches, whole_pattern, width


@pytest.mark.parametrize(
    ("search", "whole"),
    [
        ("^a$", "a"),
        ("^(?:a|b)$", "a|b"),
        ("^[A-Z]{2}-[0-9]{4}$", "[A-Z]{2}-[0-9]{4}"),
        ("^a|b$", r"a[\s\S]*|[\s\S]*b"),
        ("(^a$)|(^b$)", "a|b"),
        ("a", r"[\s\S]*a[\s\S]*"),
        (r"^a\$", r"a\$[\s\S]*"),
        ("^[$^|]$", "[$^|]"),
        ("", r"[\s\S]*[\s\S]*"),
        (r"^\[[0-9]]$", r"\[[0-9]\]"),  # a bracket that closes nothing is a character
        ("^a{2}}$", r"a{2}\}"),
    ],
)
def test_anchors_are_read_as_json_schema_reads_them(search: str, whole: str) -> None:
    assert whole_pattern(search) == whole


@pytest.mark.parametrize("search", ["a^b", "(?=a)", r"\bword", r"(a)\1", "(?i)a", "(", "a{2000}", "^^a"])
def test_what_cannot_be_enforced_is_refused(search: str) -> None:
    with pytest.raises(RegexError):
        whole_pattern(search)


@given(
    st.sampled_from(["^a|b$", "a", "^ab", "ab$", "(^a|^b)", "^(a|bb)$", "^a*$|b", "^[^a]+$", r"^\$|\|", "(?:a$|b)"]),
    st.text(alphabet="ab$|\n", max_size=6),
)
def test_the_whole_pattern_matches_exactly_where_the_search_finds(search: str, text: str) -> None:
    try:
        whole = whole_pattern(search)
    except RegexError:
        return
    expected = re.search(search.replace("$", r"\Z") if r"\$" not in search else search, text) is not None
    assert matches(whole, text) == expected


def test_a_pattern_that_backtracks_forever_elsewhere_answers_at_once() -> None:
    assert not matches("(a*)*b", "a" * 5_000)


def test_the_width_of_a_pattern_is_known() -> None:
    assert width("[a-z]{2,5}x?") == (2, 6)
    assert width("a*") == (0, None)
    assert width("(") is None
