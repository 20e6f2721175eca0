"""Scores of extracted values against the right answers, as the literature on attribute extraction reports them.

Two counts stand side by side. The *reported* F1 is the exact-match measure of the OA-Mine and AE-110k line of work:
absent attributes that are rightly left empty earn nothing, and only attributes that the right answer names are looked
at. The *strict* count looks at every attribute of the category, so inventing a value for an absent attribute always
costs; the share of absent attributes with a value is the hallucination rate.

`read_examples` reads both sides from JSON lines:

right      {"value": {"brand": "Sony", "color": null}, "category": "tv"}
           {"value": {"brand": "Sony"}, "accepted": {"brand": ["SONY", "Sony Group"]}}    as right as the value
           {"target_scores": {"brand": {"Sony": 1, "SONY": 1}, "color": {"n/a": 1}}}      as public sets have it
a model's  {"value": {"brand": "Sony", "color": "red"}, "truncated": false}    or {"value": null}: could not be read

With stacked documents both values are lists, and every document is an example of its own. Fields have paths:
`size.width` is the width of the object `size`, and `"size.width"` a key with a point in it. Lists are compared whole,
as JSON: the order of the keys of their items does not matter, and 5 equals 5.0.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import TypeAlias

import numpy as np

from pastalang.training.data import ACCEPTED, CATEGORY, VALUE, read_rows
from pastalang.training.errors import BadData, BadRow
from pastalang.training.row_files import RowFile, name_of
from pastalang.values.describe import counted
from pastalang.values.json import JsonValue, spell_json

ABSENT_SPELLINGS = ("n/a", "None")
ABSENT = "n/a"
_BELOW = "{ }"  # stands for an object with fields of its own

Expected: TypeAlias = Mapping[str, Sequence[str]]  # attribute -> accepted values; "n/a" stands for absent
Predicted: TypeAlias = Mapping[str, str | None]
Accepted: TypeAlias = Mapping[str, Sequence[str | None]]  # further right values of a field

TARGETS = "target_scores"
_WORD = re.compile(r"\w+|[^\w\s]")


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
    """How often each outcome occurred, under its name."""

    absent_left_empty: int = 0
    absent_but_filled: int = 0
    present_left_empty: int = 0
    present_correct: int = 0
    present_wrong: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

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


def report_on_texts(pairs: Sequence[tuple[str, str | None]], *, truncated: int) -> Report:
    """Scores of whole texts, right and given (None: there is none): their words are compared, in any order.

    A word of the right text that is missing counts as left empty, one that is too much as filled.
    """
    reported = sum((_count_words(right, given or "") for right, given in pairs), Counts())
    plain = sum((_count_words(right.casefold(), (given or "").casefold()) for right, given in pairs), Counts())
    each = [_count_words(right, given or "").f1 for right, given in pairs]
    return Report(
        documents=len(pairs),
        reported=reported,
        strict=reported,
        normalised=plain,
        macro_f1=round(sum(each) / len(each), 2) if each else 0.0,
        unparseable_rate=_percent(sum(given is None for _, given in pairs), len(pairs)),
        truncated_rate=_percent(truncated, len(pairs)),
    )


def _count_words(right: str, given: str) -> Counts:
    wanted, found = Counter(_WORD.findall(right)), Counter(_WORD.findall(given))
    return Counts(
        absent_but_filled=(found - wanted).total(),
        present_left_empty=(wanted - found).total(),
        present_correct=(wanted & found).total(),
    )


def count_fields(examples: Iterable[Example]) -> dict[str, Counts]:
    """The counts of every field that a right answer names, over all categories."""
    found: dict[str, Counts] = {}
    for example in examples:
        for name in example.expected:
            found[name] = found.get(name, Counts()) + _count(judge(example, name))
    return found


def judge(example: Example, attribute: str) -> Outcome:
    """The outcome of one attribute. An answer that cannot be parsed counts as empty."""
    texts = example.expected.get(attribute, ())
    accepted = [*(_present(text.strip()) for text in texts), *texts] or [None]
    predicted = None if example.predicted is None else _present(example.predicted.get(attribute))
    if predicted is None:
        return Outcome.ABSENT_LEFT_EMPTY if None in accepted else Outcome.PRESENT_LEFT_EMPTY
    if predicted in accepted:
        return Outcome.PRESENT_CORRECT
    return Outcome.ABSENT_BUT_FILLED if accepted[0] is None else Outcome.PRESENT_WRONG


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

    return replace(
        example,
        expected={key: [plain(value) or ABSENT for value in values] for key, values in example.expected.items()},
        predicted=None if example.predicted is None else {k: plain(v) for k, v in example.predicted.items()},
    )


def _count(outcome: Outcome) -> Counts:
    return Counts(**{outcome.name.lower(): 1})


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def read_examples(expected: RowFile, predicted: RowFile) -> list[Example]:
    """Raises `BadData` or `BadRow`. Row by row, the files are about the same documents."""
    right, given = read_rows(expected), read_rows(predicted)
    if len(right) != len(given):
        raise BadData(
            f"{name_of(expected)} has {counted(len(right), 'row')}, and {name_of(predicted)} has {len(given)}"
        )
    pairs = zip(right, given, strict=True)
    return [example for one, other in pairs for example in _examples(*one, *other)]


def example_of(
    right: JsonValue,
    given: JsonValue,
    *,
    accepted: Accepted | None = None,
    category: str = "",
    truncated: bool = False,
    readable: bool = True,
) -> Example:
    """One document. A value where the right answer has none counts as invented, even if it is a whole object.

    `accepted` are further values of fields that are right, too.
    """
    further, found = accepted or {}, field_texts(given) if readable else None
    expected = {name: (text, *further.get(name, ())) for name, text in field_texts(right).items()}
    if found is not None:
        absent = (name for name, texts in expected.items() if None in texts)
        found |= {name: _BELOW for name in absent if _has_below(found, name)}
    return Example(
        category=category,
        expected={
            name: [ABSENT if text is None else _spelled(text) for text in texts] for name, texts in expected.items()
        },
        predicted=None if found is None else {name: text and _spelled(text) for name, text in found.items()},
        truncated=truncated,
    )


def _spelled(text: str) -> str:
    """In JSON, null alone is no value: a text that spells its absence elsewhere keeps its quotes."""
    return json.dumps(text) if text in ABSENT_SPELLINGS else text


def accepted_of(given: JsonValue, value: JsonValue, origin: str) -> Accepted:
    """What a row accepts besides its value, from its key `accepted`. Raises `BadRow`."""
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(values, list) for values in given.values()):
        raise BadRow(f"the key `{ACCEPTED}` has to hold an object with a list of values for each field", origin=origin)
    known = field_texts(value)
    for name in given:
        if name not in known:
            raise BadRow(f"`{ACCEPTED}` names `{name}`, and the value has {_listed(known)}", origin=origin)
    return {name: [text_of(one) for one in values] for name, values in given.items() if isinstance(values, list)}


def all_accepted(given: JsonValue, values: Sequence[JsonValue], origin: str) -> list[Accepted]:
    """`accepted_of` for every document of a row; of stacked documents, `accepted` is a list like their values."""
    if not isinstance(given, list):
        return [accepted_of(given, value, origin) for value in values]
    if len(given) != len(values):
        raise BadRow(f"`{ACCEPTED}` has {len(given)} entries, and there are {len(values)} documents", origin=origin)
    return [accepted_of(one, value, origin) for one, value in zip(given, values, strict=True)]


def field_texts(value: JsonValue) -> dict[str, str | None]:
    """The fields of a value by their paths, as texts to compare."""
    return {name: text_of(item) for name, item in _flat("", value)}


def text_of(value: JsonValue) -> str | None:
    """Equal texts for equal values: keys in order, whole numbers without a point."""
    return value if value is None or isinstance(value, str) else spell_json(_in_order(value))


def _in_order(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _in_order(value[key]) for key in sorted(value)}
        case list():
            return [_in_order(item) for item in value]
        case Decimal() if value == value.to_integral_value():
            return int(value)
        case Decimal():
            return value.normalize()
        case _:
            return value


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no fields"


def _has_below(found: Mapping[str, str | None], name: str) -> bool:
    return name not in found and any(other.startswith(f"{name}.") for other in found)


def _examples(origin: str, right: dict[str, JsonValue], other: str, given: dict[str, JsonValue]) -> Iterator[Example]:
    category, truncated = str(right.get(CATEGORY, "")), given.get("truncated") is True
    readable = given.get(VALUE, given) is not None
    if TARGETS in right and VALUE not in right:
        [answer] = _documents(given, other, most=1) if readable else [None]
        predicted = field_texts(answer) if readable else None
        yield Example(category, _targets(right[TARGETS], origin), predicted, truncated)
        return
    expected = _documents(right, origin)
    found = _documents(given, other) if readable else [None] * len(expected)
    if len(expected) != len(found):
        raise BadRow(f"has {counted(len(found), 'document')}, and {origin} has {len(expected)}", origin=other)
    accepted = all_accepted(right.get(ACCEPTED), expected, origin)
    for one, answer, further in zip(expected, found, accepted, strict=True):
        yield example_of(one, answer, accepted=further, category=category, truncated=truncated, readable=readable)


def _targets(targets: JsonValue, origin: str) -> Expected:
    """The accepted values of each attribute: those with a score, or all of them if none has one."""
    if not isinstance(targets, dict) or not all(isinstance(values, dict) and values for values in targets.values()):
        raise BadRow(f"the key `{TARGETS}` has to hold an object with scored values for each attribute", origin=origin)
    return {
        _step(name): [text for text, score in values.items() if score] or list(values)
        for name, values in targets.items()
        if isinstance(values, dict)
    }


def _documents(row: dict[str, JsonValue], origin: str, *, most: int | None = None) -> list[JsonValue]:
    value = row.get(VALUE)
    documents = value if isinstance(value, list) and value and most is None else [value]
    if VALUE not in row or not all(isinstance(document, dict) for document in documents):
        raise BadRow(f"the key `{VALUE}` has to hold an object", origin=origin)
    return documents


def _flat(path: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    match value:
        case dict() if value:
            for key, item in value.items():
                yield from _flat(f"{path}.{_step(key)}" if path else _step(key), item)
        case _:
            yield path, value


def _step(key: str) -> str:
    """A key as a step of a path, in quotation marks where it would read as several."""
    return key if key and not any(mark in key for mark in '."[') else json.dumps(key, ensure_ascii=False)


# ── intervals ───────────────────────────────────────────────────────────────────────────────────────────────

Interval: TypeAlias = tuple[float, float]

_RESAMPLES = 1000


def interval_of_mean(values: Sequence[float]) -> Interval:
    """What holds 95 % of the means of resampled values."""
    if len(values) < 2:
        return (values[0], values[0]) if len(values) else (0.0, 0.0)
    random, array = np.random.default_rng(0), np.array(values, dtype=np.float64)
    means = np.sort(array[random.integers(0, len(array), (_RESAMPLES, len(array)))].mean(axis=1))
    return float(means[int(0.025 * _RESAMPLES)]), float(means[int(0.975 * _RESAMPLES) - 1])
