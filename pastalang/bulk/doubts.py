"""What the rows of a run say about the model: answers that are all alike, texts that repeat, impossible dates, choices
at chance. A model that is too weak for its task gives rows with the status `ok`, and is known by these."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pastalang.plan.branches import Hole
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.values.lengths import closed_texts

_FEW: Final = 10  # rows of which nothing is said
_OFTEN: Final = 0.1  # the share of rows from which on something is said
_CHANCE: Final = 1.25  # a confidence that is lower than so many times that of a blind choice is no better
_REPEATED: Final = re.compile(r"(\S.{1,30}?)\1{3,}", re.DOTALL)
_YEAR: Final = re.compile(r"([0-9]{4})-[0-9]{2}-[0-9]{2}")
_LATEST, _EARLIEST = 2200, 1000


@dataclass
class Doubts:
    """Counts over the rows that have a value, by field."""

    rows: int = 0
    values: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    repeating: Counter[str] = field(default_factory=Counter)
    undated: Counter[str] = field(default_factory=Counter)
    confidence: Counter[str] = field(default_factory=Counter)  # sums
    confident: Counter[str] = field(default_factory=Counter)  # how many are in each sum

    def add(self, row: Mapping[str, Any]) -> None:
        if row.get("value") is None:
            return
        self.rows += 1
        value = row["value"] if isinstance(row["value"], dict) else {"the value": row["value"]}
        for key, part in value.items():
            seen = self.values[key]
            if len(seen) < 2:  # more are not needed to know that they differ
                seen[json.dumps(part, ensure_ascii=False, default=str)] += 1
            texts = list(_texts(part))
            self.repeating[key] += any(_REPEATED.search(text) for text in texts)
            years = (int(found[1]) for text in texts if (found := _YEAR.match(text)))
            self.undated[key] += any(not _EARLIEST <= year <= _LATEST for year in years)
        for one in row["_fields"]:
            name = re.sub(r"\[\d+\]", "[]", one["field"])
            self.confidence[name] += one["confidence"]
            self.confident[name] += 1

    def lines(self, plan: Plan) -> list[str]:
        """Each with what it is about first. Empty for few rows."""
        return [] if self.rows < _FEW else [*self._alike(), *self._odd(), *self._blind(plan)]

    def _alike(self) -> Iterator[str]:
        for key, seen in self.values.items():
            [(value, count), *others] = seen.most_common()
            if not others and count == self.rows:
                yield f"{key}: all {self.rows:,} rows have {value if len(value) <= 60 else value[:60] + '…'}"

    def _odd(self) -> Iterator[str]:
        for what, counts in (("repeat themselves", self.repeating), ("have an impossible date", self.undated)):
            for key, count in counts.items():
                if count > _OFTEN * self.rows:
                    yield f"{key}: {count:,} of {self.rows:,} rows {what}"

    def _blind(self, plan: Plan) -> Iterator[str]:
        for _, _, hole in walk_plan(plan):
            if isinstance(hole, Hole) and (counted := self.confident[hole.field]):
                options, mean = len(closed_texts(hole.type, dict(plan.types))), self.confidence[hole.field] / counted
                if options > 1 and mean < _CHANCE / options:
                    yield f"{hole.field}: its mean confidence, {mean:.2f}, is that of a blind choice of {options}"


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for part in value:
                yield from _texts(part)
        case dict():
            for part in value.values():
                yield from _texts(part)
