"""The texts that a `verbatim` value may quote, by the names that programs use for them: `title`, `order.note`.

The texts of a list, `pages` or `pages.body`, are joined to one text with a border between them. No quotation contains
the border, so each stands inside one element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, InputType, ListOf, OneOf, RecordOf
from pastalang.values.quotes import BORDER, occurrences_of
from pastalang.values.walk import parts_of


def quotes(type: t.Type, types: Mapping[str, t.Type]) -> bool:
    """Whether the type, or a type inside it, quotes a text that is known only when a program runs."""
    return bool(quoted_sources(type, types))


def quoted_sources(type: t.Type, types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """The names of the texts that the type, or a type inside it, quotes."""
    found: dict[str, None] = {}
    waiting, met = [type], set[str]()
    while waiting:
        match part := waiting.pop():
            case t.Verbatim(source=source):
                found[source] = None
            case t.Named(name=name):
                waiting += [types[name]] if name not in met else []
                met.add(name)
            case _:
                waiting += [inner for _, inner in parts_of(part)]
    return tuple(found)


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
