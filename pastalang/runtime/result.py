"""What a run gives: the typed value, the text, every field with its tokens, what it cost, and its trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pastalang.runtime.errors import Problem
from pastalang.runtime.trace import Trace
from pastalang.runtime.usage import Usage
from pastalang.values.json_text import JsonValue

BETWEEN = "\n\n"  # stands between the texts of stacked documents


@dataclass(frozen=True, slots=True)
class FieldResult:
    """`span` is where the text stands in that of the answer, or of the whole result that the field was asked of;
    `log_probability` is that of all its tokens together.

    `attempts` counts the times that it was decoded. `problem` says why there is no value, or what a validator
    objects to. With `details`, `pushed_aside` is, for each drawn token, the probability of all that was not allowed,
    and `options` of a closed choice are the spellings with the probability of each, the likeliest first; what could not
    be weighed is missing to 1.
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
    pushed_aside: tuple[float, ...] | None = None
    options: tuple[tuple[str, float], ...] | None = None

    def moved(self, offset: int) -> FieldResult:
        """The same field in a longer text, in which its own begins at `offset`."""
        return self if not offset else replace(self, span=(self.span[0] + offset, self.span[1] + offset))

    @property
    def log_probability(self) -> float:
        return math.fsum(self.log_probabilities)

    @property
    def confidence(self) -> float:
        """The probability of the value under what is declared for it."""
        return math.exp(self.log_probability)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of the answer's text, and the lane (the number of the branch) that wrote it."""

    text: str
    lane: int
    is_forced: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """`value`: a JSON answer as Python values; of running text, its fields by name, forks as lists.

    `exact` is the same as its text says it, in JSON: dates as they are written, whole numbers as `int`, others as
    `Decimal`.
    `thinking` is what the model wrote for itself, where the template lets it think first; no field, no part of `text`.
    """

    value: Any
    text: str
    fields: tuple[FieldResult, ...]
    stretches: tuple[Stretch, ...] = ()
    thinking: str | None = None
    exact: JsonValue = None

    def field(self, path: str, *items: int) -> FieldResult:
        for field in self.fields:
            if field.path == path and (not items or field.items[-len(items) :] == items):
                return field
        raise KeyError(path)


@dataclass(frozen=True, slots=True)
class Result:
    """`answers` has one element, or one per document where documents were stacked. `problems`: what a validator still
    objects to, where that was to be kept."""

    answers: tuple[Answer, ...]
    is_stacked: bool
    usage: Usage
    trace: Trace
    problems: tuple[Problem, ...] = ()

    @property
    def value(self) -> Any:
        """The value; a list of them where documents were stacked."""
        return [answer.value for answer in self.answers] if self.is_stacked else self.answers[0].value

    @property
    def exact(self) -> JsonValue:
        """The value as its text says it, in JSON."""
        return [answer.exact for answer in self.answers] if self.is_stacked else self.answers[0].exact

    @property
    def text(self) -> str:
        """The answer; those of stacked documents one after another."""
        return BETWEEN.join(answer.text for answer in self.answers)

    @property
    def fields(self) -> tuple[FieldResult, ...]:
        """Of all answers, their spans counted in the whole `text`; those of one answer count in its own."""
        found: list[FieldResult] = []
        offset = 0
        for answer in self.answers:
            found += [field.moved(offset) for field in answer.fields]
            offset += len(answer.text) + len(BETWEEN)
        return tuple(found)

    @property
    def thinking(self) -> tuple[str | None, ...]:
        """Of each answer."""
        return tuple(answer.thinking for answer in self.answers)

    @property
    def truncated(self) -> bool:
        return any(field.truncated for field in self.fields)
