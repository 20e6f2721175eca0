"""What makes a value doubtful, whatever its type says: repetition, an impossible date, little confidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Final

from pastalang.runtime.answer_parts import FieldResult, shown_confidence

UNSURE: Final = 0.5  # a confidence that is lower is named
_REPEATED: Final = re.compile(r"(\S.{1,30}?)\1{3,}|(\S)\2{7,}", re.DOTALL)
_YEAR: Final = re.compile(r"([0-9]{4})-[0-9]{2}-[0-9]{2}")
_LATEST, _EARLIEST = 2200, 1000


def repeats(text: str) -> bool:
    return _REPEATED.search(text) is not None


def is_impossible(text: str) -> bool:
    """Whether it is a date that hardly any document means."""
    found = _YEAR.match(text)
    return found is not None and not _EARLIEST <= int(found[1]) <= _LATEST


def texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case date():
            yield value.isoformat()
        case list():
            for part in value:
                yield from texts_in(part)
        case dict():
            for part in value.values():
                yield from texts_in(part)


def odd_values(fields: Iterable[FieldResult]) -> Iterator[str]:
    """What is certainly wrong, a line for each field."""
    for field in fields:
        texts = list(texts_in(field.value))
        if any(map(repeats, texts)):
            yield f"{field.where}: repeats itself"
        elif any(map(is_impossible, texts)):
            yield f"{field.where}: is an impossible date"


def unsure_values(fields: Iterable[FieldResult]) -> Iterator[str]:
    """What the model was not sure of, a line for each field."""
    for field in fields:
        if field.confidence < UNSURE:
            yield f"{field.where}: confidence {shown_confidence(field.confidence)}"
