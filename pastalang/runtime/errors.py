"""The errors of a run. Each has a type, a code, the field it concerns, and the line of the template."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.failures import InputError, PastaError, RuntimeFailure
from pastalang.plan.plan import Plan
from pastalang.source import Source, Span
from pastalang.values.paths import place_of


class LoadError(PastaError):
    """A model or a tokenizer cannot be used, or the two do not belong together."""


class WrongMode(LoadError):
    """The weights were not trained for this mode, or to write these tags."""


class RunError(RuntimeFailure):
    """Decoding failed. `code` is a stable word for programs, `field` the place of the field that was being written."""

    code = "run"

    def __init__(
        self,
        message: str,
        *,
        plan: Plan | None = None,
        field: str = "",
        items: tuple[int, ...] = (),
        span: Span | None = None,
    ) -> None:
        self.reason = message
        self.field = place_of(field, items) if field else ""
        self.line = _line_of(plan, span)
        super().__init__("\n".join(part for part in (self._headline(), _shown(plan, span)) if part))

    def _headline(self) -> str:
        return f"{self.reason} (in the field `{self.field}`)" if self.field else self.reason


class NotFiniteLogits(RunError):
    """The model returned NaN or infinity for a token that was to be sampled."""

    code = "not_finite_logits"


class DeadEnd(RunError):
    """A type cannot be enforced, no token is allowed, or the model gives every allowed token no probability."""

    code = "dead_end"


class TooLong(RunError):
    """The tokens to be fed do not fit into the positions of the model. Nothing is ever truncated silently."""

    code = "too_long"


class OutOfMemory(RunError):
    """The KV cache or the device is too small, even for one branch at a time."""

    code = "out_of_memory"


class BadList(RunError):
    """The list that a fan-out iterates over could not be read, or is too long."""

    code = "bad_list"


class NotTheType(RunError):
    """The answer does not fit its type. This is always a bug of the runtime, never a mistake of the caller."""

    code = "not_the_type"


class ValidatorFailed(RunError):
    """A validator of the caller's model failed or returned something else, so the value could not be validated."""

    code = "validator_failed"


class Cancelled(RunError):
    """The caller has cancelled the run."""

    code = "cancelled"


class BadInputs(InputError):
    """Inputs are missing, unknown, or not of the declared type."""

    code = "bad_inputs"


def _line_of(plan: Plan | None, span: Span | None) -> int | None:
    if plan is None or span is None or span.start > len(plan.source_text):
        return None
    return Source(plan.source_name, plan.source_text).place(span.start).line


def _shown(plan: Plan | None, span: Span | None) -> str:
    """The line of the template with carets. Empty if the plan was built without source text."""
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
    """What is wrong with an answer in the end.

    `where` is a path such as `lines[2].total`, empty for the whole answer. `text` is the last attempt. `document` is
    the 0-based number of the answer in a stack of documents.
    """

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
