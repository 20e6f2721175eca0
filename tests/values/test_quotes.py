"""Where quotations begin and end: at words, at graphemes, at any character."""

from __future__ import annotations

import pytest

from pastalang.program.types import QuoteUnit
from pastalang.values.quotes import is_quotation, parts_of


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Sony 55in TV", ["Sony", " ", "55in", " ", "TV"]),
        ("can't, U.S. 3.14 1,000", ["can't", ",", " ", "U.S", ".", " ", "3.14", " ", "1,000"]),
        ("foo_bar a-b c/d", ["foo_bar", " ", "a", "-", "b", " ", "c", "/", "d"]),
        ("größe e\u0301te\u0301", ["größe", " ", "e\u0301te\u0301"]),
        ("ש\"ת ש' ab", ['ש"ת', " ", "ש'", " ", "ab"]),
        ("日本の", ["日", "本", "の"]),
        ("カタカナ", ["カタカナ"]),
        ("ภาษา", ["ภ", "า", "ษ", "า"]),
        ("안녕 세계", ["안녕", " ", "세계"]),
        ("👩\u200d👧🇩🇪🇫🇷!", ["👩\u200d👧", "🇩🇪", "🇫🇷", "!"]),
        ("a\r\n\n b", ["a", "\r\n", "\n", " ", "b"]),
    ],
)
def test_words_are_those_of_unicode(text: str, parts: list[str]) -> None:
    assert parts_of(text, QuoteUnit.WORDS) == parts


def test_a_quotation_begins_and_ends_with_whole_units() -> None:
    text = " Sony e\u0301te\u0301 55in, black "
    words, graphemes, characters = QuoteUnit
    assert is_quotation("Sony e\u0301te\u0301 55in", text, words) and is_quotation(",", text, words)
    for span in ("Son", "ony", " Sony", "55in, ", "black "):
        assert not is_quotation(span, text, words) and is_quotation(span, text, graphemes)
    assert not is_quotation("e", text, graphemes) and is_quotation("e", text, characters)
    assert not is_quotation("", text, characters) and not is_quotation("white", text, characters)
    assert is_quotation("on", "gone on", words), "one occurrence is enough"
