"""What an extraction returns: the value, what it rests on, and for one of many documents its status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias

from pastalang.errors import PastaError
from pastalang.runtime.errors import TooLong
from pastalang.runtime.result import FieldResult, Invalid, Result, T_co, Usage
from pastalang.runtime.truncation import Truncated

Status: TypeAlias = Literal["ok", "invalid", "truncated", "too_long", "error"]

_NOTHING_USED: Final = Usage(
    input_tokens=0, reused_tokens=0, output_tokens=0, forced_tokens=0, forward_passes=0, critical_path=0,
    theoretical_speedup=1.0, peak_cells=0, attended_tokens=0.0, seconds=0.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Extraction(Generic[T_co]):
    """The value of a document, and where it comes from.

    value        an instance of the type; None if the document failed
    id           the document, for one of many
    status       "ok"; "truncated" if a limit cut a value; "invalid" if a validator objects; "too_long" if the document
                 does not fit into the model; "error" for anything else
    error        the exception that ended the document; None if it has a value
    problem      why the status is not "ok", on one line
    fields       every field with its text, confidence and place in the source
    confidence   the probability of the least certain field; 1 if there are no fields, 0 if the document failed
    truncated    whether a limit ended a value
    usage        tokens, forward passes, memory and time
    result       the whole run, with its trace
    """

    value: T_co
    run: Result[Any] | None
    error: PastaError | None = None
    id: str | None = None

    @staticmethod
    def of(outcome: Result[Any] | PastaError, *, id: str | None = None) -> Extraction[Any]:
        """The extraction of a run, or of the error that ended it. A run that was refused is kept with its error."""
        if isinstance(outcome, Result):
            return Extraction(outcome.value, outcome, None, id)
        refused = outcome.result if isinstance(outcome, Invalid | Truncated) else None
        return Extraction(None, refused, outcome, id)

    def __repr__(self) -> str:
        name = "" if self.id is None else f" {self.id}"
        if self.status != "ok" and self.error is not None:
            return f"<Extraction{name} {self.status}: {self.problem:.400}>"
        return f"<Extraction{name} {self.value!r:.400}, confidence {self.confidence:.2f}>"

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
        return f"cut at its limit: {', '.join(map(str, self.run.truncations))}" if self.run.truncated else None

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
    def sources(self) -> dict[str, str]:
        """The texts that values may quote. `field.source` says where in them a value stands."""
        return {} if self.run is None else self.run.sources

    def field(self, path: str, *items: int) -> FieldResult:
        return self.result.field(path, *items)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    def to_html(self) -> str:
        """One self-contained page: the text with the quotations marked, next to the values of the fields."""
        return self.result.to_html()

    @property
    def usage(self) -> Usage:
        return _NOTHING_USED if self.run is None else self.run.usage
