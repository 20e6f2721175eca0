"""Collects the findings of the checker."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice

from pastalang.diagnostics.diagnostic import Diagnostic, Label
from pastalang.diagnostics.registry import CODES
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.limits import MAX_FINDINGS
from pastalang.source import Source, Span


@dataclass(slots=True)
class Report:
    """The findings in one source. The reports of all files of a program share `found`."""

    source: Source
    found: list[Diagnostic] = field(default_factory=list)

    def for_source(self, source: Source) -> Report:
        return Report(source, self.found)

    def add(
        self,
        code: str,
        headline: str,
        span: Span,
        *,
        message: str = "",
        related: Iterable[Label] = (),
        help: str | tuple[str, ...] = (),
    ) -> None:
        """Add a finding, unless it is a duplicate or there are too many to read."""
        advice = (help,) if isinstance(help, str) else help
        finding = Diagnostic(
            code,
            headline,
            self.source,
            span,
            severity=CODES[code].severity,
            message=message,
            related=tuple(related),
            help=tuple(line for line in advice if line),
        )
        has_room = not self.is_full or (finding.is_error and not self.has_errors)
        if has_room and finding not in self.found:
            self.found.append(finding)

    @property
    def is_full(self) -> bool:
        return len(self.found) >= MAX_FINDINGS

    def suggest(self, word: str, known: Iterable[str], *, otherwise: str = "") -> str:
        """A line of help that names the most similar known name, or `otherwise`."""
        meant = None if self.is_full else did_you_mean(word, known)
        return f"did you mean `{meant}`?" if meant is not None else otherwise

    @property
    def has_errors(self) -> bool:
        return any(finding.is_error for finding in self.found)


def listed(words: Collection[str], *, most: int = 12) -> str:
    """The words as a list in a sentence: `a`, `b` and `c`."""
    quoted = [f"`{word}`" for word in islice(words, most)]
    if len(words) > most:
        quoted.append(f"{len(words) - most} more")
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}" if len(quoted) > 1 else "".join(quoted) or "nothing"
