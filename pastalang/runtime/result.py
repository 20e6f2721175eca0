"""What a run returns: the typed value, the text, every field with its tokens, the cost and the trace."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from typing_extensions import TypeVar

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.plan.plan import Plan
from pastalang.runtime.errors import Problem, RunError
from pastalang.runtime.notebook import answer_html
from pastalang.runtime.quotations import SourceSpan
from pastalang.runtime.trace import Trace
from pastalang.runtime.truncation import Truncation
from pastalang.values.json import JsonValue
from pastalang.values.paths import place_in_answer, place_of


@dataclass(frozen=True, slots=True)
class Usage:
    """`output_tokens` are the drawn ones; `forced_tokens` were fed without being drawn, in the model's own turn.
    The fed tokens of the trace add up to `input_tokens` and `forced_tokens`. Text after the last draw is never fed.

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
    `drafted_tokens` were fed on the chance that they are drawn next, `confirmed_tokens` are those of them that were.
    Confirmed drafts take no pass, so they shorten `critical_path` as well.
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
    drafted_tokens: int = 0
    confirmed_tokens: int = 0


T_co = TypeVar("T_co", default=Any, covariant=True)  # what `model=` makes of the answer
BETWEEN = "\n\n"  # between the texts of stacked documents
_SHOWN = 400  # characters of a value in a repr


@dataclass(frozen=True, slots=True, repr=False)
class FieldResult:
    """One field of an answer.

    where               its place in the value of the result: `lines[0].total`, `call.city` whichever object `call` is;
                        of a stacked document `[1].lines[0].total`
    path, items         the name that the plan has for it, and the 0-based numbers of the list items around it
    text, value         as the model wrote it, and as Python has it
    span                where `text` stands in the text of the answer, or of the result that the field was taken from
    truncated           whether its limit ended it
    confidence          the probability of the value, given what is declared for it
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

    def __repr__(self) -> str:
        notes = [f"confidence {self.confidence:.2f}"]
        notes += ["truncated"] * self.truncated
        notes += [f"{self.attempts} attempts"] * (self.attempts > 1)
        notes += [self.problem] if self.problem is not None else []
        return f"<{self.where} = {_shortened(repr(self.value))} ({', '.join(notes)})>"

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
        return math.fsum(self.log_probabilities)

    @property
    def confidence(self) -> float:
        """The probability of the value, given what is declared for it."""
        return math.exp(self.log_probability)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of the answer's text. `lane` is the number of the branch that wrote it."""

    text: str
    lane: int
    is_forced: bool


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """One answer.

    value      a JSON answer as Python values; for running text its fields by name, forks as lists
    exact      the value in JSON, digit for digit: dates as strings, whole numbers as `int`, others as `Decimal`
    sources    the texts that its values may quote, by their paths
    text       the text of the answer
    thinking   what the model wrote before the answer, white space included, if the template lets it think; not a part
               of `text`
    truncations  the values that their limits have cut, and the lists that ended at a limit nobody set
    """

    value: T_co
    text: str
    fields: tuple[FieldResult, ...]
    stretches: tuple[Stretch, ...] = ()
    thinking: str | None = None
    exact: JsonValue = None
    sources: Mapping[str, str] = field(default_factory=dict)
    truncations: tuple[Truncation, ...] = ()

    def field(self, path: str, *items: int) -> FieldResult:
        """The field at a place such as `lines[0].total`; or of a path such as `lines[].total`, with its items."""
        return _found(self.fields, path, items)


@dataclass(frozen=True, slots=True, repr=False)
class Result(Generic[T_co]):
    """What a run returned. `value` is what most callers want.

    value, text, fields   of the answer; if documents were stacked, `value` is a list with one value for each
    answers               one answer, or one for each stacked document
    usage                 tokens, forward passes, memory and time
    trace                 what every branch did in every pass
    problems              what a validator still objects to; only with `keep_invalid`
    """

    answers: tuple[Answer[T_co], ...]
    is_stacked: bool
    usage: Usage
    trace: Trace
    problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"<Result {_shortened(self._written)}\n {self._summary}>"

    def _repr_html_(self) -> str:
        lanes = {lane.id: lane.where for lane in self.trace.lanes}
        between = [Stretch(BETWEEN, 0, is_forced=True)]
        stretches = [one for answer in self.answers for one in (*between, *answer.stretches)]
        return answer_html(stretches[1:], lanes, self._summary)

    @property
    def _written(self) -> str:
        """JSON on one line; running text as it is."""
        try:
            return json.dumps(self.exact, ensure_ascii=False, default=str) if _is_json(self.text) else repr(self.text)
        except RecursionError:
            return repr(self.text)

    @property
    def _summary(self) -> str:
        usage = self.usage
        truncated = [one.where for one in self.truncations]
        parts = [
            _counted(len(self.fields), "field"),
            f"{_counted(usage.output_tokens, 'token')} in {_counted(usage.forward_passes, 'pass')}",
            f"{usage.seconds:.2f} s",
            *([f"truncated: {', '.join(truncated[:4])}{', …' if truncated[4:] else ''}"] if truncated else []),
            *([_counted(len(self.problems), "problem")] if self.problems else []),
        ]
        return " · ".join(parts)

    @property
    def value(self) -> T_co:
        """The value; a list with one value for each stacked document, which type checkers know from `answers` only."""
        return self._values if self.is_stacked else self.answers[0].value

    @property
    def _values(self) -> Any:
        return [answer.value for answer in self.answers]

    @property
    def exact(self) -> JsonValue:
        """The value in JSON, digit for digit as the model wrote it."""
        return [answer.exact for answer in self.answers] if self.is_stacked else self.answers[0].exact

    @property
    def text(self) -> str:
        """The text of the answer; those of stacked documents one after another."""
        return BETWEEN.join(answer.text for answer in self.answers)

    @property
    def fields(self) -> tuple[FieldResult, ...]:
        """The fields of all answers. Their spans count in the whole `text`, those in `answers` in the answer's own."""
        found: list[FieldResult] = []
        offset = 0
        for answer in self.answers:
            found += [field.moved(offset) for field in answer.fields]
            offset += len(answer.text) + len(BETWEEN)
        return tuple(found)

    def field(self, path: str, *items: int) -> FieldResult:
        """The field at a place such as `lines[0].total`, and `[1].lines[0].total` in the second stacked document."""
        return _found(self.fields, path, items)

    @property
    def sources(self) -> dict[str, str]:
        """The texts that `verbatim` values may quote, by their paths in the inputs: "title", "pages[2]"."""
        return {path: text for answer in self.answers for path, text in answer.sources.items()}

    def to_html(self) -> str:
        """One self-contained page: the sources with their quotations marked, next to the values of the fields."""
        from pastalang.runtime.display.sources import sources_page

        return sources_page(self.fields, self.sources)

    @property
    def thinking(self) -> tuple[str | None, ...]:
        """What the model wrote before each answer."""
        return tuple(answer.thinking for answer in self.answers)

    @property
    def truncations(self) -> tuple[Truncation, ...]:
        """The values that their limits have cut, and the lists that ended at a limit that nobody set."""
        return tuple(one for answer in self.answers for one in answer.truncations)

    @property
    def truncated(self) -> bool:
        return bool(self.truncations)


class Invalid(RunError):
    """A validator still objects to the answer after all attempts. `result` is the run with its last values."""

    code = "invalid"

    def __init__(self, problems: tuple[Problem, ...], *, plan: Plan, result: Result) -> None:
        self.problems = problems
        self.result = result
        listed = "; ".join(map(str, problems))
        super().__init__(f"the answer is not valid: {listed}", plan=plan)
        self.field = problems[0].where


def _found(fields: Sequence[FieldResult], path: str, items: tuple[int, ...]) -> FieldResult:
    places: dict[str, None] = {}
    for one in fields:
        where = place_in_answer(one.path, one.items)
        if path in (where, one.where) or (one.path == path and (not items or one.items[-len(items) :] == items)):
            return one
        places[where] = None
    hint = did_you_mean(path, places)
    raise KeyError(f"there is no field `{path}`" + (f"; did you mean `{hint}`?" if hint else ""))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _counted(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in {"{", "[", '"'}
