"""What a call returns: the result of a run or the extraction of a document, and what is raised in its place."""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from pastalang.diagnostics.suggest import first_of
from pastalang.failures import PastaError, TruncationWarning
from pastalang.plan.plan import Plan
from pastalang.runtime.answer_html import answer_html, sources_html, sources_page
from pastalang.runtime.answer_parts import FieldResult, Stretch, Truncation, field_at, shortened, shown_confidence
from pastalang.runtime.doubtful import odd_values, unsure_values
from pastalang.runtime.errors import Problem, RunError, TooLong
from pastalang.runtime.trace import Trace
from pastalang.values.describe import counted
from pastalang.values.json import JsonValue

T_co = TypeVar("T_co", default=Any, covariant=True)  # what `model=` makes of the answer
BETWEEN = "\n\n"  # between the texts of stacked documents
_FIELDS_SHOWN: Final = 6  # in one message
_EXTRA_USAGE: Final = {
    "reused_tokens": "tokens reused", "repair_passes": "passes of repair", "confirmed_tokens": "drafts confirmed",
    "given_up": "attempts without room", "requests": "requests",
}  # fmt: skip
_ADVICE: Final = 'set `on_truncated` to "keep", "null" or "raise"'


@dataclass(frozen=True, slots=True, repr=False)
class Usage:
    """What a run took.

    `output_tokens` are the drawn ones; `forced_tokens` were fed without being drawn, in the model's own turn.
    The fed tokens of the trace add up to `input_tokens` and `forced_tokens`. Text after the last draw is never fed.
    `reused_tokens` of them an earlier request had fed: of the prompt, and perhaps of what every answer begins with.

    `critical_path` is the number of passes that the plan's dependencies ask for, given what was drawn;
    `theoretical_speedup` is how many passes left-to-right decoding of the same answer takes for each of those.
    Both are about the first complete answer. What was decoded again for the sake of `model=` or `retry_below=` is
    in `repair_passes` and `repair_tokens` (drawn), which are part of `forward_passes` and `output_tokens`;
    `attempts` counts the fields that were decoded again for a reason of their own, and `given_up` those that stay as
    they were because there was no room to decode them again.
    `peak_cells` is the most cells that held something of this request at one time, its prompt included whether it is
    fed or kept from an earlier request. It is never more than the peak of the plan's forecast for the same lengths.
    Requests that share a kept prompt count it each.
    With `details`, weighing the options of a choice may take one pass more than the path asks for, and a few cells.
    `attended_tokens` is the mean over drawn tokens of how many tokens each saw.
    `drafted_tokens` were fed on the chance that they are drawn next, `confirmed_tokens` are those of them that were.
    Confirmed drafts take no pass, so they shorten `critical_path` as well.
    `mode` says where the answer was decoded: "local", or on a server, as one request for each value ("branches") or for
    the whole answer ("whole"). Of a server, `requests` were answered, `critical_path` of them one after another.
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
    given_up: int = 0
    drafted_tokens: int = 0
    confirmed_tokens: int = 0
    mode: Literal["local", "branches", "whole"] = "local"
    requests: int = 0

    def __repr__(self) -> str:
        """One line; counts that are 0 are left out."""
        extra = [f"{getattr(self, name)} {words}" for name, words in _EXTRA_USAGE.items() if getattr(self, name)]
        passes = f"{self.output_tokens} tokens in {self.forward_passes} passes"
        parts = [
            f"{self.input_tokens} tokens read",
            passes,
            f"{self.peak_cells} cells",
            f"{self.seconds:.2f} s",
            *extra,
        ]
        return f"<Usage {' · '.join(parts)}>"


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
        return field_at(self.fields, path, items)


@dataclass(frozen=True, slots=True, repr=False)
class Result(Generic[T_co]):
    """What a run returned. `value` is what most callers want.

    value, text, fields   of the answer; if documents were stacked, `value` is a list with one value for each
    answers               one answer, or one for each stacked document
    usage                 tokens, forward passes, memory and time
    trace                 what every branch did in every pass
    prompt                what the model read before its turn; those of stacked documents one after another
    problems              what a validator still objects to; only with `keep_invalid`
    """

    answers: tuple[Answer[T_co], ...]
    is_stacked: bool
    usage: Usage
    trace: Trace
    problems: tuple[Problem, ...] = ()
    prompt: str = ""

    def __repr__(self) -> str:
        return f"<Result {shortened(self._written)}\n {self.summary}>"

    def _repr_html_(self) -> str:
        lanes = {lane.id: lane.where for lane in self.trace.lanes}
        between = [Stretch(BETWEEN, 0, is_forced=True)]
        stretches = [one for answer in self.answers for one in (*between, *answer.stretches)]
        return answer_html(stretches[1:], lanes, self.summary)

    @property
    def _written(self) -> str:
        """JSON on one line; running text as it is."""
        try:
            return json.dumps(self.exact, ensure_ascii=False, default=str) if _is_json(self.text) else repr(self.text)
        except RecursionError:
            return repr(self.text)

    @property
    def summary(self) -> str:
        """One line: fields, tokens, passes, seconds, and what is wrong."""
        usage = self.usage
        truncated = [one.where for one in self.truncations]
        parts = [
            counted(len(self.fields), "field"),
            f"{counted(usage.output_tokens, 'token')} in {counted(usage.forward_passes, 'pass')}",
            f"{usage.seconds:.2f} s",
            *([f"truncated: {_some(truncated)}"] if truncated else []),
            *([f"empty: {_some(empty)}"] if (empty := [one.where for one in self.empty]) else []),
            *([counted(len(self.problems), "problem")] if self.problems else []),
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
        return field_at(self.fields, path, items)

    @property
    def sources(self) -> dict[str, str]:
        """The texts that `verbatim` values may quote, by their paths in the inputs: "title", "pages[2]"."""
        return {path: text for answer in self.answers for path, text in answer.sources.items()}

    def to_html(self) -> str:
        """One self-contained page: the sources with their quotations marked, next to the values of the fields."""
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

    @property
    def empty(self) -> tuple[FieldResult, ...]:
        """The fields of running text in which nothing stands. Only `min_chars=0` and white space make one."""
        return tuple(field for field in self.fields if not field.text.strip())


class Invalid(RunError):
    """A validator still objects to the answer after all attempts. `result` is the run with its last values."""

    code = "invalid"

    def __init__(self, problems: tuple[Problem, ...], *, plan: Plan, result: Result) -> None:
        self.problems = problems
        self.result = result
        listed = "; ".join(map(str, problems))
        super().__init__(f"the answer is not valid: {listed}", plan=plan)
        self.field = problems[0].where


class Truncated(RunError):
    """A value ended at its limit, and the program or the call asks for an error. `result` is the run with its value."""

    code = "truncated"

    def __init__(self, truncations: Sequence[Truncation], *, plan: Plan, result: Result) -> None:
        self.truncations = tuple(truncations)
        self.result = result
        super().__init__(f"cut at its limit: {first_of([*map(str, truncations)], _FIELDS_SHOWN)}", plan=plan)
        self.field = truncations[0].where


Status: TypeAlias = Literal["ok", "unsure", "invalid", "truncated", "too_long", "error"]

_NOTHING_USED: Final = Usage(
    input_tokens=0, reused_tokens=0, output_tokens=0, forced_tokens=0, forward_passes=0, critical_path=0,
    theoretical_speedup=1.0, peak_cells=0, attended_tokens=0.0, seconds=0.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Extraction(Generic[T_co]):
    """The value of a document, and where it comes from.

    value        an instance of the type; None if the document failed
    id           the document, for one of many: a text or an integer
    status       "ok"; "truncated" if a limit cut a value; "invalid" if a validator objects; "too_long" if the document
                 does not fit into the model; "error" for anything else; rows of `pasta extract` may be "unsure"
    error        the exception that ended the document; None if it has a value
    problem      why the status is not "ok", on one line
    fields       every field with its text, confidence and place in the source
    doubtful     why values may be wrong, a line each: texts that repeat themselves, lists that do so until their limit,
                 impossible dates, fields with a confidence below 0.5
    confidence   that of the least certain field, to be compared with a threshold; 1 if there are no fields, 0 if the
                 document failed
    truncated    whether a limit ended a value
    usage        tokens, forward passes, memory and time
    result       the whole run, with its trace
    windows      the parts of the document, if it was read in windows; each has its own status, value and run
    """

    value: T_co
    run: Result[Any] | None
    error: PastaError | None = None
    id: str | int | None = None
    windows: tuple[Window, ...] = ()

    @staticmethod
    def of(outcome: Result[Any] | PastaError, *, id: str | int | None = None) -> Extraction[Any]:
        """The extraction of a run, or of the error that ended it. A run that was refused is kept with its error."""
        if isinstance(outcome, Result):
            return Extraction(outcome.value, outcome, None, id)
        refused = outcome.result if isinstance(outcome, Invalid | Truncated) else None
        return Extraction(None, refused, outcome, id)

    def __repr__(self) -> str:
        name = "" if self.id is None else f" {self.id}"
        if self.status != "ok" and self.error is not None:
            return f"<Extraction{name} {self.status}: {self.problem:.400}>"
        return f"<Extraction{name} {self.value!r:.400}, confidence {shown_confidence(self.confidence)}>"

    @property
    def status(self) -> Status:
        match self.error:
            case None:
                assert self.run is not None
                return "invalid" if self.run.problems else "truncated" if self.run.truncated else "ok"
            case Invalid():
                return "invalid"
            case Truncated():
                return "truncated"
            case TooLong():
                return "too_long"
            case _:
                return "error"

    @property
    def problem(self) -> str | None:
        if self.error is not None:
            return " ".join(str(getattr(self.error, "reason", self.error)).split())
        assert self.run is not None
        if self.run.problems:
            return "the answer is not valid: " + "; ".join(map(str, self.run.problems))
        return (
            f"cut at its limit: {', '.join(_each_once(map(str, self.run.truncations)))}" if self.run.truncated else None
        )

    @property
    def result(self) -> Result[T_co]:
        """The whole run. Raises the error of a document that was not run."""
        if self.run is None:
            assert self.error is not None
            raise self.error
        return self.run

    @property
    def fields(self) -> tuple[FieldResult, ...]:
        return () if self.run is None else self.run.fields

    @property
    def confidence(self) -> float:
        return min((field.confidence for field in self.fields), default=1.0 if self.error is None else 0.0)

    @property
    def truncated(self) -> bool:
        return self.run is not None and self.run.truncated

    @property
    def doubtful(self) -> tuple[str, ...]:
        cut = () if self.run is None else self.run.truncations
        return (*odd_values(self.fields, cut), *unsure_values(self.fields))

    @property
    def sources(self) -> dict[str, str]:
        """The texts that values may quote. `field.source` says where in them a value stands."""
        return {} if self.run is None else self.run.sources

    def field(self, path: str, *items: int) -> FieldResult:
        return self.result.field(path, *items)

    def _repr_html_(self) -> str:
        """The texts with the quotations marked, and the answer; what went wrong if there is none."""
        if self.run is None:
            return f"<pre>{escape(repr(self))}</pre>"
        lanes = {lane.where: lane.id for lane in self.run.trace.lanes}
        return sources_html(self.fields, self.sources, lanes) + self.run._repr_html_()

    def to_html(self) -> str:
        """One self-contained page: the text with the quotations marked, next to the values of the fields."""
        return sources_page(self.result.fields, self.result.sources, windows=_windows_shown(self.windows))

    @property
    def usage(self) -> Usage:
        return _NOTHING_USED if self.run is None else self.run.usage


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a document, from the character `start` to `end`, and what was read in it alone."""

    start: int
    end: int
    found: Extraction[Any]

    @property
    def status(self) -> Status:
        return self.found.status

    @property
    def problem(self) -> str | None:
        return self.found.problem


def _windows_shown(windows: Sequence[Window]) -> list[tuple[int, int, str]]:
    return [(one.start, one.end, one.problem or one.status) for one in windows]


def advice_on(truncations: Iterable[Truncation]) -> str:
    """The warning for values that their limits have cut and nobody has decided about, or '' if there are none."""
    undecided = [one for one in truncations if one.became is None]
    if not undecided:
        return ""
    cut = _each_once(f"{one.path} ({counted(one.limit, one.unit)})" for one in undecided)
    repeated = list(dict.fromkeys(one.path for one in undecided if one.repeats))
    if all(one.repeats for one in undecided):
        how = f"they repeat themselves, so higher limits do not help; {_ADVICE}"
    else:
        some = f", except where they repeat themselves ({first_of(repeated, _FIELDS_SHOWN)})" if repeated else ""
        how = f"raise their limits{some}, or {_ADVICE}"
    return f"values were cut at their limits: {first_of(cut, _FIELDS_SHOWN)}; {how}"


def _each_once(fields: Iterable[str]) -> list[str]:
    return [field if count == 1 else f"{field} {count:,} times" for field, count in Counter(fields).items()]


def warn(truncations: Iterable[Truncation]) -> None:
    """One warning, at the line that called the package."""
    text = advice_on(truncations)
    if text:
        warnings.warn(text, TruncationWarning, stacklevel=_frames_of_the_package())


def _frames_of_the_package() -> int:
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pastalang":
        frame, level = frame.f_back, level + 1
    return level


def _some(places: Sequence[str]) -> str:
    return ", ".join(places[:4]) + (", …" if places[4:] else "")


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in {"{", "[", '"'}
