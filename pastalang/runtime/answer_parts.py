"""What an answer is made of: its fields, the stretches of its text, and the values that their limits have cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.program.types import OnTruncated
from pastalang.runtime.quotations import SourceSpan
from pastalang.values.describe import counted
from pastalang.values.paths import place_in_answer, place_of

_SHOWN: Final = 400  # characters of a value in a repr


@dataclass(frozen=True, slots=True, repr=False)
class FieldResult:
    """One field of an answer.

    where               its place in the value of the result: `lines[0].total`, `call.city` whichever object `call` is;
                        of a stacked document `[1].lines[0].total`
    path, items         the name that the plan has for it, and the 0-based numbers of the list items around it
    text, value         as the model wrote it, and as Python has it
    span                where `text` stands in the text of the answer, or of the result that the field was taken from
    truncated           whether its limit ended it
    confidence          how sure the model is of the value, given what is declared for it: the probability of a value
                        that is right or wrong as a whole, such as an option, a number or a date; of a text or a nested
                        value, the geometric mean of the probabilities of its draws, whose number is `averaged`
    attempts            how many times it was decoded
    problem             why there is no value, or what a validator objects to
    masked_probability  with `details`: for each sampled token, the probability of the tokens that its type ruled out
    sources             for values that quote: where each quotation stands; `source` is the first of them
    options             with `details`, for a closed choice: the spellings with their probabilities, likeliest first;
                        probability that could not be attributed is missing from their sum
    """

    path: str
    items: tuple[int, ...]
    text: str
    value: Any
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    truncated: bool
    span: tuple[int, int]
    attempts: int = 1
    problem: str | None = None
    masked_probability: tuple[float, ...] | None = None
    options: tuple[tuple[str, float], ...] | None = None
    sources: tuple[SourceSpan, ...] = ()
    averaged: int = 1

    def __repr__(self) -> str:
        notes = [f"confidence {shown_confidence(self.confidence)}"]
        notes += ["truncated"] * self.truncated
        notes += [f"{self.attempts} attempts"] * (self.attempts > 1)
        notes += [self.problem] if self.problem is not None else []
        return f"<{self.where} = {shortened(repr(self.value))} ({', '.join(notes)})>"

    def moved(self, offset: int) -> FieldResult:
        """The same field in a longer text that contains its own from `offset` on."""
        return self if not offset else replace(self, span=(self.span[0] + offset, self.span[1] + offset))

    @property
    def source(self) -> SourceSpan | None:
        """Where the value stands in its source, if it is a quotation; the first one of a value that holds several."""
        return self.sources[0] if self.sources else None

    @property
    def where(self) -> str:
        return place_of(self.path, self.items)

    @property
    def log_probability(self) -> float:
        """The logarithm of the probability of the whole value."""
        return math.fsum(self.log_probabilities)

    @property
    def confidence(self) -> float:
        return math.exp(self.log_probability / self.averaged)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of the answer's text. `lane` is the number of the branch that wrote it."""

    text: str
    lane: int
    is_forced: bool


@dataclass(frozen=True, slots=True)
class Truncation:
    """A value that ended at its limit, or a list that ended at a number of items that the planner chose.

    path, where   the field, such as `lines[].name`, and the value, such as `lines[2].name`
    limit, unit   such as 24 and "token", or 8 and "item"
    became        "keep", "null" or "raise"; None if nothing is set, so that it is kept and warned of
    repeats       whether it said the same again and again when it ended, so that a higher limit gives more of the same
    """

    path: str
    where: str
    limit: int
    unit: str
    became: OnTruncated | None
    repeats: bool = False

    def __str__(self) -> str:
        return f"{self.where} ({counted(self.limit, self.unit)})"


def shown_confidence(confidence: float) -> str:
    return "below 0.01" if confidence < 0.01 else f"{confidence:.2f}"


def field_at(fields: Sequence[FieldResult], path: str, items: tuple[int, ...]) -> FieldResult:
    places: dict[str, None] = {}
    for one in fields:
        where = place_in_answer(one.path, one.items)
        if path in (where, one.where) or (one.path == path and (not items or one.items[-len(items) :] == items)):
            return one
        places[where] = None
    hint = did_you_mean(path, places)
    raise KeyError(f"there is no field `{path}`" + (f"; did you mean `{hint}`?" if hint else ""))


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"
