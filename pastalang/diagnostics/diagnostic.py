"""Diagnostics: problems at places in a program, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pastalang.source import Source, Span


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Label:
    """A further place that explains the diagnostic, with a few words on what it is."""

    span: Span
    message: str
    source: Source | None = None  # None: the same file as the diagnostic


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem. `code` is a word from the registry; `headline` stands alone, without the source."""

    code: str
    headline: str
    source: Source
    span: Span
    severity: Severity = Severity.ERROR
    message: str = ""  # shown at the carets; may be empty
    related: tuple[Label, ...] = ()
    help: tuple[str, ...] = ()  # advice, and only advice

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR
