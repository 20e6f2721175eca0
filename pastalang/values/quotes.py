"""Quotations: where they may begin and end in a text, and the texts that a `verbatim` value may quote.

They begin and end at words, at graphemes (what a reader takes for one character), or at any character. Words are those
of UAX 29, the rules that text editors follow when a word is double-clicked. `can't`, `3.14`, `4K` and `foo_bar` are
words; a hyphen or a slash stands between two. Of a script without spaces, every character is a word.

Sources have the names that programs use for them: `title`, `order.note`. The texts of a list, `pages` or `pages.body`,
are joined to one text with a border between them. No quotation contains the border, so each stands inside one element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, compress
from typing import Any, Final, NamedTuple

import regex

from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, InputType, ListOf, OneOf, RecordOf
from pastalang.program.types import QuoteUnit
from pastalang.program.visit import reached

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
    """Returns True if the text has anything to quote."""
    return bool(places_of(text, at).ends)


def is_quotation(span: str, text: str, at: QuoteUnit) -> bool:
    """Returns True if `span` stands somewhere in the text from a beginning to an end."""
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


def quotes(type: t.Type, types: Mapping[str, t.Type]) -> bool:
    """Returns True if the type, or a type inside it, quotes a text that is known only when a program runs."""
    return bool(quoted_sources(type, types))


def quoted_sources(type: t.Type, types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """The names of the texts that the type, or a type inside it, quotes."""
    return tuple(dict.fromkeys(part.source for part in reached(type, types) if isinstance(part, t.Verbatim)))


def quotable_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The texts in the inputs of a run, or in the elements of its loops."""
    found: dict[str, str] = {}
    for name, value in values.items():
        found |= {name + suffix: text for suffix, text in _texts_in(value).items()}
    return found


def no_texts(inputs: Iterable[Input]) -> dict[str, str]:
    """An empty text for each name: what there is to quote from lists without elements."""
    return {input.name + suffix: "" for input in inputs for suffix in _suffixes(input.type)}


def _suffixes(type: InputType) -> list[str]:
    match type:
        case InputKind():
            return [""] if type is InputKind.TEXT else []
        case OneOf():
            return []
        case ListOf(item=item):
            return _suffixes(item)
        case RecordOf(fields=fields):
            return [f".{name}{suffix}" for name, part in fields for suffix in _suffixes(part)]


def _texts_in(value: Any) -> dict[str, str]:
    """The texts by what follows the name of the value: nothing, or `.key`."""
    match value:
        case str():
            return {"": value}
        case Mapping():
            return {f".{key}{suffix}": text for key, part in value.items() for suffix, text in _texts_in(part).items()}
        case list() | tuple():
            elements = [_texts_in(element) for element in value]
            suffixes = dict.fromkeys(suffix for element in elements for suffix in element)
            joined = {suffix: _joined([element.get(suffix, "") for element in elements]) for suffix in suffixes}
            return {suffix: text for suffix, text in joined.items() if text is not None}
        case _:
            return {}


def _joined(texts: list[str]) -> str | None:
    """None for lists of lists, whose elements have no single number. Empty if there is nothing to quote."""
    if any(BORDER in text for text in texts):
        return None
    return BORDER.join(texts) if any(texts) else ""


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """Where a quotation first stands, in characters, and how often it stands there in all.

    `item` is the 0-based number of the element if the source is a list of texts.
    """

    item: int | None
    start: int
    end: int
    occurrences: int


def find_quotation(source: str, quotation: str, unit: t.QuoteUnit) -> QuotedPlace | None:
    """The first place of a quotation in a text, or in texts with borders; None if it is not a quotation of them."""
    places = tuple(occurrences_of(quotation, source, unit))
    if not places:
        return None
    at = places[0]
    border = source.rfind(BORDER, 0, at)
    item = source.count(BORDER, 0, at) if BORDER in source else None
    start = at - border - 1 if border >= 0 else at
    return QuotedPlace(item, start, start + len(quotation), len(places))
