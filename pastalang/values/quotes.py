"""Where a quotation may begin and end in a text: at words, at graphemes (what a reader takes for one character), or at
any character.

Words are those of UAX 29, the rules that text editors follow when a word is double-clicked. `can't`, `3.14`, `4K` and
`foo_bar` are words; a hyphen or a slash stands between two. Of a script without spaces, every character is a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, compress
from typing import Final, NamedTuple

import regex

from pastalang.program.types import QuoteUnit

BORDER: Final = "\ud800"  # half of a surrogate pair, which no text contains: between the texts of a list
_MAX_TEXTS = 16  # that are cached
_MARKS = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"  # they belong to the character before them
_LETTER = r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]"
_LETTERS = (  # one, with the mark that joins it to the next one
    rf"(?:\p{{WB=Hebrew_Letter}}{_MARKS}\p{{WB=Double_Quote}}{_MARKS}(?=\p{{WB=Hebrew_Letter}})"
    rf"|{_LETTER}{_MARKS}(?:[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_MARKS}(?={_LETTER}))?)"
)
_DIGITS = (
    rf"\p{{WB=Numeric}}{_MARKS}"
    rf"(?:[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_MARKS}(?=\p{{WB=Numeric}}))?"
)
_JOINT = rf"(?:\p{{WB=ExtendNumLet}}{_MARKS})"
_RUN = rf"(?:(?:{_LETTERS}|{_DIGITS})++|(?:\p{{WB=Katakana}}{_MARKS})++)"
_AFTER_HEBREW = rf"(?<=\p{{WB=Hebrew_Letter}}{_MARKS.removesuffix('+')})"
_WORD = regex.compile(
    r"(?s)(?:\r\n|[\r\n\ud800\p{WB=Newline}]"
    rf"|{_JOINT}*+{_RUN}(?:{_JOINT}++{_RUN})*+{_JOINT}*+(?:{_AFTER_HEBREW}\p{{WB=Single_Quote}}{_MARKS})?+"
    rf"|{_JOINT}++"
    rf"|\p{{WB=WSegSpace}}++{_MARKS}"
    rf"|(?:\p{{WB=Regional_Indicator}}{_MARKS}){{2}}"
    rf"|.{_MARKS})"
    rf"(?:(?<=\u200d)\p{{ExtPict}}{_MARKS})*+"
)
_GRAPHEME = regex.compile(r"\X")


class Places(NamedTuple):
    """Where quotations may begin and where they may end, ascending, as numbers of characters."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]


@lru_cache(maxsize=_MAX_TEXTS)
def places_of(text: str, at: QuoteUnit) -> Places:
    """There are none in a text that has nothing to quote: an empty one, or white space where words are quoted."""
    ends = tuple(accumulate(map(len, parts := parts_of(text, at))))
    is_kept = [part != BORDER and (at is not QuoteUnit.WORDS or not part.isspace()) for part in parts]
    return Places(tuple(compress((0, *ends), is_kept)), tuple(compress(ends, is_kept)))


def parts_of(text: str, at: QuoteUnit) -> list[str]:
    """The words, graphemes or characters of a text. What stands between words is a part as well."""
    if at is QuoteUnit.CHARACTERS:
        return list(text)
    return [one[0] for one in (_WORD if at is QuoteUnit.WORDS else _GRAPHEME).finditer(text)]


def can_quote(text: str, at: QuoteUnit) -> bool:
    """Whether the text has anything to quote."""
    return bool(places_of(text, at).ends)


def is_quotation(span: str, text: str, at: QuoteUnit) -> bool:
    """Whether `span` stands somewhere in the text from a beginning to an end."""
    return next(occurrences_of(span, text, at), None) is not None


def occurrences_of(span: str, text: str, at: QuoteUnit) -> Iterator[int]:
    """Where `span` stands in the text from a beginning to an end: its first characters."""
    if not span or BORDER in span:
        return
    places = places_of(text, at)
    begins, ends = set(places.begins), set(places.ends)
    start = text.find(span)
    while start >= 0:
        if start in begins and start + len(span) in ends:
            yield start
        start = text.find(span, start + 1)
