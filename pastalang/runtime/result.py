"""What a run returns: the typed value, the text, every field with its tokens, the cost and the trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pastalang.plan.plan import Plan
from pastalang.runtime.errors import Problem, RunError
from pastalang.runtime.trace import Trace
from pastalang.values.json_text import JsonValue


@dataclass(frozen=True, slots=True)
class Usage:
    """`output_tokens` are the drawn ones; `forced_tokens` were fed without being drawn, in the model's own turn.

    `critical_path` is the number of passes that the plan's dependencies ask for, given what was drawn;
    `theoretical_speedup` is how many passes left-to-right decoding of the same answer takes for each of those.
    Both are about the first complete answer. What was decoded again for the sake of `model=` or `retry_below=` is
    in `repair_passes` and `repair_tokens` (drawn), which are part of `forward_passes` and `output_tokens`;
    `attempts` counts the fields that were decoded again for a reason of their own.
    `peak_cells` is the most cells that held something of this request at one time, its prompt included whether it is
    fed or kept from an earlier request. It is never more than the peak of the plan's forecast for the same lengths.
    Requests that share a kept prompt count it each.
    With `details`, weighing the options of a choice may take one pass more than the path asks for, and a few cells.
    `attended_tokens` is the mean over drawn tokens of how many tokens each saw.
    """

    input_tokens: int
    reused_tokens: int
    output_tokens: int
    forced_tokens: int
    forward_passes: int
    critical_path: int
    theoretical_speedup: float
    peak_cells: int
    attended_tokens: float
    seconds: float
    repair_passes: int = 0
    repair_tokens: int = 0
    attempts: int = 0


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


class Invalid(RunError):
    """`result` is the whole run with its last values: usage, text, fields and their attempts."""

    code = "invalid"

    def __init__(self, problems: tuple[Problem, ...], *, plan: Plan, result: Result) -> None:
        self.problems = problems
        self.result = result
        listed = "; ".join(map(str, problems))
        super().__init__(f"the answer is not valid: {listed}", plan=plan)
        self.field = problems[0].where
