"""What the rows of a run say about the model: answers that are all alike, texts that repeat, impossible dates, choices
at chance. A model that is too weak for its task gives rows with the status `ok`, and is known by these."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pastalang.plan.branches import Hole
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.runtime.doubtful import UNSURE, is_impossible, repeats, texts_in
from pastalang.runtime.models.source import KNOWN
from pastalang.values.describe import counted
from pastalang.values.lengths import closed_texts
from pastalang.values.paths import in_any_item, is_inside, path_text

_FEW: Final = 10  # rows whose answers are not compared with one another
_OFTEN: Final = 0.1  # the share of rows from which on something is said, once there are more than those few
_ALIKE: Final = 0.8  # the share of rows with one value from which on a field is named
_KEPT: Final = 64  # different values of a field that are counted: one that most rows have is among them
_CHANCE: Final = 1.25  # a confidence that is lower than so many times that of a blind choice is no better
_MOST: Final = 12  # lines


@dataclass
class Doubts:
    """Counts over the rows, by field, and what is wrong with those that have no value."""

    rows: int = 0  # that have a value
    values: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    repeating: Counter[str] = field(default_factory=Counter)
    undated: Counter[str] = field(default_factory=Counter)
    confidence: Counter[str] = field(default_factory=Counter)  # sums
    confident: Counter[str] = field(default_factory=Counter)  # how many are in each sum
    cut: Counter[str] = field(default_factory=Counter)  # rows in which a limit ended the field
    in_circles: Counter[str] = field(default_factory=Counter)  # those of them in which it repeated itself
    long: Counter[str] = field(default_factory=Counter)  # rows that are long for the model, by its name
    failed: Counter[str] = field(default_factory=Counter)  # by status
    reasons: dict[str, str] = field(default_factory=dict)  # the first of each

    def add(self, row: Mapping[str, Any]) -> None:
        status, meta = row.get("_status", "ok"), row.get("_meta", {})
        if row.get("_error") and status not in ("unsure", "truncated"):
            self.failed[status] += 1
            self.reasons.setdefault(status, row["_error"])
        cut = [(in_any_item(where), repeated) for where, repeated in row.get("_truncations", ())]
        circles = dict.fromkeys((where for where, repeated in cut if repeated), 1)
        self.cut.update(dict.fromkeys((where for where, _ in cut), 1))
        self.in_circles.update(circles)
        model = KNOWN.get(meta.get("model", ""))
        if model is not None and "windows" not in meta and meta.get("input_tokens", 0) > model.reads:
            self.long[model.name] += 1
        if row.get("value") is None:
            return
        self.rows += 1
        has_keys = isinstance(row["value"], dict)
        value = row["value"] if has_keys else {"the value": row["value"]}
        for key, part in value.items():
            seen, spelled = self.values[key], json.dumps(part, ensure_ascii=False, default=str)
            if spelled in seen or len(seen) < _KEPT:
                seen[spelled] += 1
            texts = list(texts_in(part))
            inside = any(not has_keys or is_inside(where, path_text([key])) for where in circles)
            self.repeating[key] += inside or any(map(repeats, texts))
            self.undated[key] += any(map(is_impossible, texts))
        for one in row.get("_fields", ()):
            self.confidence[in_any_item(one["field"])] += one["confidence"]
            self.confident[in_any_item(one["field"])] += 1

    def lines(self, plan: Plan) -> list[str]:
        """Each with what it is about first."""
        found = [*self._alike(), *self._odd(), *self._unsure(plan)]
        return found if len(found) <= _MOST else [*found[:_MOST], f"and {len(found) - _MOST} more"]

    def problems(self) -> list[str]:
        """Why rows have no whole value, and what to do about it."""
        return [*self._cut(), *self._long(), *self._failed()]

    def _alike(self) -> Iterator[str]:
        for key, seen in self.values.items():
            [(value, count)] = seen.most_common(1)
            if self.rows >= _FEW and count >= _ALIKE * self.rows:
                which = f"all {self.rows:,}" if count == self.rows else f"{count:,} of {self.rows:,}"
                yield f"{key}: {which} rows have {value if len(value) <= 60 else value[:60] + '…'}"

    def _odd(self) -> Iterator[str]:
        for what, counts in (("repeats itself", self.repeating), ("is an impossible date", self.undated)):
            for key, count in counts.items():
                if count and (self.rows < _FEW or count > _OFTEN * self.rows):
                    yield f"{key}: {what} in {count:,} of {counted(self.rows, 'row')}"

    def _unsure(self, plan: Plan) -> Iterator[str]:
        for _, _, hole in walk_plan(plan):
            if isinstance(hole, Hole) and (number := self.confident[hole.field]):
                options, mean = len(closed_texts(hole.type, dict(plan.types))), self.confidence[hole.field] / number
                if options > 1 and mean < _CHANCE / options and self.rows >= _FEW:
                    yield f"{hole.field}: its mean confidence, {mean:.2f}, is that of a blind choice of {options}"
                elif options <= 1 and mean < UNSURE:
                    yield f"{hole.field}: its mean confidence is {mean:.2f}"

    def _cut(self) -> Iterator[str]:
        for key, count in self.cut.items():
            how, often = "raise it: Tokens or max=, or --max-tokens where the type gives none", self.in_circles[key]
            if often == count:
                how = "it repeats itself, so a higher one does not help"
            elif often:
                how = f"in {often:,} it repeats itself, where a higher one does not help; else {how}"
            yield f"{key}: truncated at its limit in {counted(count, 'row')}; {how}"

    def _long(self) -> Iterator[str]:
        for model, count in self.long.items():
            yield (
                f"{counted(count, 'document')} with more than {KNOWN[model].reads:,} tokens, of which {model} "
                "overlooks much: --window 128 reads them in parts"
            )

    def _failed(self) -> Iterator[str]:
        for status, reason in self.reasons.items():
            yield f"{self.failed[status]:,} {status}, the first: {reason if len(reason) <= 240 else reason[:240] + '…'}"
            if status in _HOW:
                yield f"{status}: {_HOW[status]}"


_HOW: Final = {
    "too_long": "--window 128 reads a long text in parts and merges what they say",
    "invalid": "--repair 2 decodes a field again that the type refuses; one that may be null should be `| None`",
}
