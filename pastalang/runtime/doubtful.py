"""What makes a value doubtful, whatever its type says: repetition, an impossible date, little confidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final

from pastalang.runtime.answer_parts import FieldResult, Truncation, shown_confidence

UNSURE: Final = 0.5  # a confidence that is lower is named
_REPEATED: Final = re.compile(r"(\S.{1,30}?)\1{3,}|(\S)\2{7,}", re.DOTALL)
_YEAR: Final = re.compile(r"([0-9]{4})-[0-9]{2}-[0-9]{2}")
_LATEST, _EARLIEST = 2200, 1000


def repeats(text: str) -> bool:
    return _REPEATED.search(text) is not None


def goes_round(items: Sequence[object]) -> bool:
    """Whether a list ends in the same item, or the same few items in turn, three times."""
    sizes = range(1, len(items) // 3 + 1)
    return any(items[-2 * size :] == items[-3 * size : -size] for size in sizes)


def repeats_where_cut(value: Any) -> bool:
    """Whether a value that ended at its limit said the same again and again. Its last item may be cut, too.

    In an object the limit has cut the last part that holds anything: those after it are as short as they can be.
    """
    match value:
        case str():
            return repeats(value)
        case [*whole, last]:
            is_begun = any(_may_be_cut(last, one) for one in whole)
            return goes_round(value) or (is_begun and goes_round(whole)) or repeats_where_cut(last)
        case dict():
            parts = [part for part in value.values() if part and isinstance(part, str | list | dict)]
            return bool(parts) and repeats_where_cut(parts[-1])
        case _:
            return False


def _may_be_cut(part: Any, whole: Any) -> bool:
    if isinstance(part, dict | list):
        return isinstance(whole, type(part))
    return str(whole).startswith(str(part))


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


def odd_values(fields: Iterable[FieldResult], truncations: Iterable[Truncation]) -> Iterator[str]:
    """What is certainly wrong, a line for each field, and for each list of fields that went on until its limit."""
    repeated = {cut.where: None for cut in truncations if cut.repeats}
    for field in fields:
        texts = list(texts_in(field.value))
        if field.where in repeated or any(map(repeats, texts)):
            repeated.pop(field.where, None)
            yield f"{field.where}: repeats itself"
        elif any(map(is_impossible, texts)):
            yield f"{field.where}: is an impossible date"
    yield from (f"{where}: repeats itself" for where in repeated)


def unsure_values(fields: Iterable[FieldResult]) -> Iterator[str]:
    """What the model was not sure of, a line for each field."""
    for field in fields:
        if field.confidence < UNSURE:
            yield f"{field.where}: confidence {shown_confidence(field.confidence)}"
