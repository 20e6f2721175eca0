"""From right answers and those of a model to the examples that are scored; from two files of them to a report.

right      {"value": {"brand": "Sony", "color": null}, "category": "tv"}
a model's  {"value": {"brand": "Sony", "color": "red"}, "truncated": false}    or {"value": null}: could not be read

Of stacked documents both values are lists, and every document is an example of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pastalang.training.answer import spell_json
from pastalang.training.data import CATEGORY, VALUE, read_rows
from pastalang.training.errors import BadData, BadRow
from pastalang.training.metrics import Example, Report, evaluate
from pastalang.values.json_text import JsonValue

ABSENT = "n/a"
_BELOW = "{ }"  # stands for an object with fields of its own


def score_files(expected: Path, predicted: Path) -> Report:
    """Raises `BadData` or `BadRow`. The rows of the two files belong together in their order."""
    right, given = read_rows(expected), read_rows(predicted)
    if len(right) != len(given):
        raise BadData(f"{expected} has {len(right)} rows, and {predicted} has {len(given)}")
    pairs = zip(right, given, strict=True)
    return evaluate(example for one, other in pairs for example in _examples(*one, *other))


def example_of(
    right: JsonValue, given: JsonValue, *, category: str = "", truncated: bool = False, readable: bool = True
) -> Example:
    """One document. What stands where the right answer has nothing counts, also if it is a whole object."""
    expected, found = texts_of(right), texts_of(given) if readable else None
    if found is not None:
        found |= {name: _BELOW for name, text in expected.items() if text is None and _has_below(found, name)}
    return Example(
        category=category,
        expected={name: [ABSENT if text is None else text] for name, text in expected.items()},
        predicted=found,
        truncated=truncated,
    )


def texts_of(value: JsonValue) -> dict[str, str | None]:
    """The fields of a value by their paths, as they are compared."""
    return {
        name: item if item is None or isinstance(item, str) else spell_json(item) for name, item in _flat("", value)
    }


def _has_below(found: Mapping[str, str | None], name: str) -> bool:
    return name not in found and any(other.startswith(f"{name}.") for other in found)


def _examples(origin: str, right: dict[str, JsonValue], other: str, given: dict[str, JsonValue]) -> Iterator[Example]:
    category, truncated = str(right.get(CATEGORY, "")), given.get("truncated") is True
    expected = _documents(right, origin)
    readable = given.get(VALUE, given) is not None
    found = _documents(given, other) if readable else [None] * len(expected)
    if len(expected) != len(found):
        raise BadRow(f"has {len(found)} documents, and {origin} has {len(expected)}", origin=other)
    for one, answer in zip(expected, found, strict=True):
        yield example_of(one, answer, category=category, truncated=truncated, readable=readable)


def _documents(row: dict[str, JsonValue], origin: str) -> list[JsonValue]:
    value = row.get(VALUE)
    documents = value if isinstance(value, list) and value else [value]
    if VALUE not in row or not all(isinstance(document, dict) for document in documents):
        raise BadRow(f"the key `{VALUE}` has to hold an object", origin=origin)
    return documents


def _flat(path: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    match value:
        case dict() if value:
            for key, item in value.items():
                yield from _flat(f"{path}.{key}" if path else key, item)
        case _:
            yield path, value
