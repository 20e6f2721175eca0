"""Errors of a run: typed, with the field they concern and the line of the template."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.errors import InputError, PastaError, RuntimeFailure
from pastalang.plan.plan import Plan
from pastalang.source import Source, Span


class LoadError(PastaError):
    """A model and a tokenizer that cannot be used, or not together."""


class WrongMode(LoadError):
    """A mode that the weights were not trained for."""


class RunError(RuntimeFailure):
    """Decoding could not go on. `code` is a word for programs, `field` the path of the field that was written."""

    code = "run"

    def __init__(self, message: str, *, plan: Plan | None = None, field: str = "", span: Span | None = None) -> None:
        self.reason = message
        self.field = field
        self.line = _line_of(plan, span)
        super().__init__("\n".join(part for part in (self._headline(), _shown(plan, span)) if part))

    def _headline(self) -> str:
        return f"{self.reason} (in the field `{self.field}`)" if self.field else self.reason


class NotFiniteLogits(RunError):
    """The model gave NaN or infinity where a token was to be drawn."""

    code = "not_finite_logits"


class DeadEnd(RunError):
    """No token is allowed, or the model rules out all that are."""

    code = "dead_end"


class TooLong(RunError):
    """What has to be fed does not fit into the positions of the model. Nothing is ever cut silently."""

    code = "too_long"


class OutOfMemory(RunError):
    """The memory is too small, even for one branch at a time: that of the cells, or that of the device."""

    code = "out_of_memory"


class BadList(RunError):
    """The list that a fan-out goes over could not be read, or is too long."""

    code = "bad_list"


class NotTheType(RunError):
    """The assembled answer does not fit its type: a mistake of the runtime or of a guide, never of the caller."""

    code = "not_the_type"


class ValidatorFailed(RunError):
    """A validator of the caller's model broke, or gave something else than the model: it did not judge the value."""

    code = "validator_failed"


class Cancelled(RunError):
    """The run was given up by its caller."""

    code = "cancelled"


class BadInputs(InputError):
    """Inputs that are missing, unknown, or not what the template declares."""

    code = "bad_inputs"


def _line_of(plan: Plan | None, span: Span | None) -> int | None:
    if plan is None or span is None or span.start > len(plan.source_text):
        return None
    return Source(plan.source_name, plan.source_text).place(span.start).line


def _shown(plan: Plan | None, span: Span | None) -> str:
    """The line of the template with carets, or nothing where the plan was made without a text."""
    line = _line_of(plan, span)
    if plan is None or span is None or line is None or not plan.source_text:
        return ""
    source = Source(plan.source_name, plan.source_text)
    text = source.line(line)
    column = source.place(span.start).column
    carets = max(1, min(span.end - span.start, len(text) - column + 1))
    return f"  {plan.source_name}:{line}:{column}\n  {text}\n  {' ' * (column - 1)}{'^' * carets}"


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` as in `lines[2].total`, empty for the whole answer; `text` is the last one; `document` counts from 0."""

    where: str
    reason: str
    text: str
    attempts: int
    document: int = 0

    def __str__(self) -> str:
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return f"{self.where or 'the answer'}: {self.reason} (decoded {times}, last as {_short(self.text)})"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
