"""Syntax problems as values: a code, a headline, a place; the parser turns them into diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.diagnostics.diagnostic import Diagnostic, Label, Severity
from pastalang.source import Source, Span


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a place of the text being parsed."""

    code: str
    headline: str
    span: Span
    message: str = ""
    help: tuple[str, ...] = ()
    related: tuple[Label, ...] = ()
    severity: Severity = Severity.ERROR

    def in_source(self, source: Source) -> Diagnostic:
        return Diagnostic(
            self.code,
            self.headline,
            source,
            self.span,
            severity=self.severity,
            message=self.message,
            related=self.related,
            help=self.help,
        )


class SyntaxProblem(Exception):
    """Raised for a construct that the grammar allows and the language does not."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.headline)
        self.problem = problem
