"""From two files of answers to scores: the right ones and those of a model come in, a `metrics.Report` goes out.

right      {"value": {"brand": "Sony", "color": null}, "category": "tv"}
a model's  {"value": {"brand": "Sony", "color": "red"}, "truncated": false}    or {"value": null}: could not be read
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pastalang.training.answer import spell_json
from pastalang.training.data import CATEGORY, VALUE, read_rows
from pastalang.training.errors import BadData, BadRow
from pastalang.training.metrics import Example, Report, evaluate
from pastalang.values.json_text import JsonValue


def score_files(expected: Path, predicted: Path) -> Report:
    """Raises `BadData` or `BadRow`. The rows of the two files belong together in their order."""
    right, given = read_rows(expected), read_rows(predicted)
    if len(right) != len(given):
        raise BadData(f"{expected} has {len(right)} rows, and {predicted} has {len(given)}")
    return evaluate(_example(*one, *other) for one, other in zip(right, given, strict=True))


def _example(origin: str, right: dict[str, JsonValue], other: str, given: dict[str, JsonValue]) -> Example:
    expected = dict(_values(right, origin))
    found = None if given.get(VALUE, given) is None else dict(_values(given, other))
    return Example(
        category=str(right.get(CATEGORY, "")),
        expected={name: _accepted(value) for name, value in expected.items()},
        predicted=None if found is None else {name: _text(value) for name, value in found.items()},
        truncated=given.get("truncated") is True,
    )


def _values(row: dict[str, JsonValue], origin: str) -> Iterator[tuple[str, JsonValue]]:
    """The fields of a row by their paths."""
    if VALUE not in row or not isinstance(value := row[VALUE], dict):
        raise BadRow(f"the key `{VALUE}` has to hold an object", origin=origin)
    return _flat("", value)


def _flat(path: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    match value:
        case dict() if value:
            for key, item in value.items():
                yield from _flat(f"{path}.{key}" if path else key, item)
        case _:
            yield path, value


def _accepted(value: JsonValue) -> list[str]:
    text = _text(value)
    return ["n/a"] if text is None else [text]


def _text(value: JsonValue) -> str | None:
    return value if value is None or isinstance(value, str) else spell_json(value)
