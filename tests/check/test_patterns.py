"""The regular expressions that can be enforced: which are accepted, which are refused and where."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pastalang.program.regex import Lengths, RegexError, after, lengths, meetings, parse_regex, spell, texts_of


@pytest.mark.parametrize(
    ("pattern", "shortest", "longest"),
    [
        ("abc", 3, 3), ("a|bcd", 1, 3), ("(ab){2,3}", 4, 6), ("a*", 0, None), ("(a?){5}", 0, 5),
        ("^[A-Z]{2}-[0-9]+$", 4, None), ("", 0, 0), ("(){9}", 0, 0),
    ],
)  # fmt: skip
def test_the_lengths_of_matches_are_known(pattern: str, shortest: int, longest: int | None) -> None:
    assert lengths(parse_regex(pattern)) == Lengths(shortest, longest)


def test_a_class_that_takes_nothing_matches_nothing() -> None:
    assert lengths(parse_regex(r"[^\s\S]")) is None
    assert lengths(parse_regex(r"a[^\d\D]?")) == Lengths(1, 1)
    assert spell(parse_regex(".")) == spell(parse_regex("[^\n\r\u2028\u2029]"))


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a|b|a", {"a", "b"}), ("[ab]{2}", {"aa", "ab", "ba", "bb"}), ("x(a?){3}", {"x", "xa", "xaa", "xaaa"}),
        ("(|a){0,2}b", {"b", "ab", "aab"}), ("(){9}", {""}), ("[^a-z]", None), ("a*", None), ("(a*)*", None),
        ("a{0,900}", None), ("(a|b){5}", None), (r"a[^\s\S]", set()), (r"a|[^\s\S]{2}c", {"a"}),
        (r"[^\s\S]*a", {"a"}),
    ],
)  # fmt: skip
def test_few_texts_are_all_known(pattern: str, texts: set[str] | None) -> None:
    assert texts_of(parse_regex(pattern), fewer_than=20) == texts


PIECES = st.recursive(
    st.sampled_from(("a", "b", "[ab]", "", "ab")),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join).map("({})".format),
        st.tuples(inner, st.sampled_from(("?", "{2}", "{0,2}", "{1,3}"))).map(lambda both: f"({both[0]}){both[1]}"),
    ),
    max_leaves=5,
)


@given(PIECES)
def test_texts_are_those_that_another_engine_matches(pattern: str) -> None:
    """As many as there are, where they are few enough; at least as many as the limit, where it says many."""
    most = lengths(parse_regex(pattern))
    assume(most is not None and most.longest is not None and most.longest <= 7)
    candidates = ("".join(letters) for size in range(8) for letters in itertools.product("ab", repeat=size))
    matching = {text for text in candidates if re.fullmatch(pattern, text)}
    for limit in (1, 3, 30):
        assert texts_of(parse_regex(pattern), fewer_than=limit) == (matching if len(matching) < limit else None)


@pytest.mark.parametrize(
    ("pattern", "blamed"),
    [
        ("a(?=b)", "(?="), ("(?<!a)b", "(?<!"), (r"(a)\1", r"\1"), (r"\bword", r"\b"), ("a^b", "^"), ("a$b", "$"),
        ("(?i)a", "(?i"), ("(?P<x>a)", "(?P<x>"), (r"\p{L}", r"\p"), ("[[:alpha:]]", "[:"), ("a{2}{3}", "}"),
        ("a{3,1}", "{3,1}"), ("a{1001}", "{1001}"), ("*a", "*"), ("(a", "("), ("a)", ")"), ("[a", "["),
        ("[z-a]", "z-a"), ("a++", "+"),
    ],
)  # fmt: skip
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


@given(PATTERNS, st.text(alphabet="abcdefxy", max_size=5), st.text(alphabet="abcdefxy", max_size=5))
def test_what_may_follow_a_text_is_what_matches_behind_it(pattern: str, text: str, more: str) -> None:
    rest = after(parse_regex(pattern), text)
    matches = rest is not None and re.fullmatch(spell(rest), more) is not None
    assert matches == (re.fullmatch(pattern, text + more, re.ASCII) is not None)


def test_what_may_follow_a_text_is_short_whatever_repeats() -> None:
    """One way to go on for each place of the pattern, not for each way to get there."""
    rest = after(parse_regex(r"(\w+ ?){1,50}"), "abcdefghijklmnop")
    assert rest is not None and len(spell(rest)) < 1000 and after(parse_regex("[ab]{0,900}"), "aba") is not None


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


@pytest.mark.parametrize(
    ("left", "right", "meet"),
    [
        ("a", "b", False), ("a*", "b*", True), ("a+", "b+", False), ("a.*", ".*b", True), ("[a-f]{3}", "[e-z]+", True),
        ("[a-f]{3}", "[g-z]+", False), (r"(?:ab)*", r"(?:aba)*b?", True), (r"(?:ab)+", r"(?:ba)+", False),
        (r"\d{4}-\d\d", r"\d{4}-[a-z]\d", False), ("é|a", "[^a]", True), (r"[^\s\S]", ".", False), ("", "x?", True),
    ],
)  # fmt: skip
def test_whether_a_text_matches_both_is_known(left: str, right: str, meet: bool) -> None:
    assert any(meetings(parse_regex(left), parse_regex(right))) == meet
    assert any(meetings(parse_regex(right), parse_regex(left))) == meet
