"""Scores of extracted values against the right answers, as the literature on attribute extraction reports them.

Two counts stand side by side. The *reported* F1 is the exact-match measure of the OA-Mine and AE-110k line of work:
absent attributes that are rightly left empty earn nothing, and only attributes that the right answer names are looked
at. The *strict* count looks at every attribute of the category, so inventing a value for an absent attribute always
costs; the share of absent attributes with a value is the hallucination rate.

`score_files` reads both sides from JSON lines:

right      {"value": {"brand": "Sony", "color": null}, "category": "tv"}
a model's  {"value": {"brand": "Sony", "color": "red"}, "truncated": false}    or {"value": null}: could not be read

With stacked documents both values are lists, and every document is an example of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from pastalang.training.data import CATEGORY, VALUE, read_rows
from pastalang.training.errors import BadData, BadRow
from pastalang.values.json import JsonValue, spell_json

ABSENT_SPELLINGS = ("n/a", "None")
ABSENT = "n/a"
_BELOW = "{ }"  # stands for an object with fields of its own

Expected: TypeAlias = Mapping[str, Sequence[str]]  # attribute -> accepted values; "n/a" stands for absent
Predicted: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Example:
    """One document: the right answer, and the predicted one (None: it could not be parsed)."""

    category: str
    expected: Expected
    predicted: Predicted | None
    truncated: bool = False


class Outcome(Enum):
    """The five outcomes of one attribute; the short names are those of the literature."""

    ABSENT_LEFT_EMPTY = "NN"
    ABSENT_BUT_FILLED = "NV"
    PRESENT_LEFT_EMPTY = "VN"
    PRESENT_CORRECT = "VC"
    PRESENT_WRONG = "VW"


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each outcome occurred."""

    absent_left_empty: int = 0
    absent_but_filled: int = 0
    present_left_empty: int = 0
    present_correct: int = 0
    present_wrong: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.absent_left_empty + other.absent_left_empty,
            self.absent_but_filled + other.absent_but_filled,
            self.present_left_empty + other.present_left_empty,
            self.present_correct + other.present_correct,
            self.present_wrong + other.present_wrong,
        )

    @property
    def says_nothing(self) -> bool:
        """Whether only absent attributes left empty were counted: such a cell has no F1."""
        return not (self.absent_but_filled or self.present_left_empty or self.present_correct or self.present_wrong)

    @property
    def precision(self) -> float:
        """In per cent, rounded to two decimals, as the literature does before it forms F1."""
        return _percent(self.present_correct, self.absent_but_filled + self.present_correct + self.present_wrong)

    @property
    def recall(self) -> float:
        return _percent(self.present_correct, self.present_left_empty + self.present_correct + self.present_wrong)

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return round(2 * self.precision * self.recall / total, 2) if total else 0.0

    @property
    def hallucination_rate(self) -> float:
        """The share of absent attributes for which a value was invented, in per cent."""
        return _percent(self.absent_but_filled, self.absent_but_filled + self.absent_left_empty)


@dataclass(frozen=True, slots=True)
class Report:
    """All scores of one evaluation, in per cent; `macro_f1` is the mean over (category, attribute) cells."""

    documents: int
    reported: Counts
    strict: Counts
    normalised: Counts
    macro_f1: float
    unparseable_rate: float
    truncated_rate: float


def evaluate(examples: Iterable[Example], *, asked: Mapping[str, Sequence[str]] | None = None) -> Report:
    """Score all examples. The attributes of a category are those that its expected answers name, and `asked`."""
    listed = list(examples)
    known = _known_attributes(listed, asked or {})
    cells: dict[tuple[str, str], Counts] = {}
    strict = normalised = Counts()
    for example in listed:
        for attribute in known[example.category]:
            outcome = _count(judge(example, attribute))
            strict += outcome
            if attribute in example.expected:
                key = (example.category, attribute)
                cells[key] = cells.get(key, Counts()) + outcome
                normalised += _count(judge(_normalise(example), attribute))
    speaking = [counts for counts in cells.values() if not counts.says_nothing]
    return Report(
        documents=len(listed),
        reported=sum(cells.values(), Counts()),
        strict=strict,
        normalised=normalised,
        macro_f1=round(sum(counts.f1 for counts in speaking) / len(speaking), 2) if speaking else 0.0,
        unparseable_rate=_percent(sum(example.predicted is None for example in listed), len(listed)),
        truncated_rate=_percent(sum(example.truncated for example in listed), len(listed)),
    )


def judge(example: Example, attribute: str) -> Outcome:
    """The outcome of one attribute. An answer that cannot be parsed counts as empty."""
    accepted = [_present(value.strip()) for value in example.expected.get(attribute, ())] or [None]
    predicted = None if example.predicted is None else _present(example.predicted.get(attribute))
    if accepted[0] is None:
        return Outcome.ABSENT_LEFT_EMPTY if predicted is None else Outcome.ABSENT_BUT_FILLED
    if predicted is None:
        return Outcome.PRESENT_LEFT_EMPTY
    return Outcome.PRESENT_CORRECT if predicted in accepted else Outcome.PRESENT_WRONG


def _present(value: str | None) -> str | None:
    return None if value is None or value in ABSENT_SPELLINGS else value


def _known_attributes(examples: Sequence[Example], asked: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    known = {category: dict.fromkeys(names) for category, names in asked.items()}
    for example in examples:
        known.setdefault(example.category, {}).update(dict.fromkeys(example.expected))
    return {category: tuple(attributes) for category, attributes in known.items()}


def _normalise(example: Example) -> Example:
    """The same example with case and outer white space taken away on both sides."""

    def plain(value: str | None) -> str | None:
        present = None if value is None else _present(value.strip())
        return None if present is None else present.casefold()

    return Example(
        category=example.category,
        expected={key: [plain(value) or "n/a" for value in values] for key, values in example.expected.items()},
        predicted=None if example.predicted is None else {k: plain(v) for k, v in example.predicted.items()},
        truncated=example.truncated,
    )


def _count(outcome: Outcome) -> Counts:
    match outcome:
        case Outcome.ABSENT_LEFT_EMPTY:
            return Counts(absent_left_empty=1)
        case Outcome.ABSENT_BUT_FILLED:
            return Counts(absent_but_filled=1)
        case Outcome.PRESENT_LEFT_EMPTY:
            return Counts(present_left_empty=1)
        case Outcome.PRESENT_CORRECT:
            return Counts(present_correct=1)
        case Outcome.PRESENT_WRONG:
            return Counts(present_wrong=1)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def score_files(expected: Path, predicted: Path) -> Report:
    """Raises `BadData` or `BadRow`. Row by row, the files are about the same documents."""
    right, given = read_rows(expected), read_rows(predicted)
    if len(right) != len(given):
        raise BadData(f"{expected} has {len(right)} rows, and {predicted} has {len(given)}")
    pairs = zip(right, given, strict=True)
    return evaluate(example for one, other in pairs for example in _examples(*one, *other))


def example_of(
    right: JsonValue, given: JsonValue, *, category: str = "", truncated: bool = False, readable: bool = True
) -> Example:
    """One document. A value where the right answer has none counts as invented, even if it is a whole object."""
    expected, found = field_texts(right), field_texts(given) if readable else None
    if found is not None:
        found |= {name: _BELOW for name, text in expected.items() if text is None and _has_below(found, name)}
    return Example(
        category=category,
        expected={name: [ABSENT if text is None else text] for name, text in expected.items()},
        predicted=found,
        truncated=truncated,
    )


def field_texts(value: JsonValue) -> dict[str, str | None]:
    """The fields of a value by their paths, as texts to compare."""
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
