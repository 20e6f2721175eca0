"""From the findings of a program to the refusal of a command: the text for people, the first one's word and line."""

from __future__ import annotations

from collections.abc import Iterable

from pastalang.cli.exit_codes import Refused
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_text


def refused_findings(findings: Iterable[Diagnostic], code: int) -> Refused:
    """At least one of them has to be an error; the errors alone are told."""
    errors = [finding for finding in findings if finding.is_error]
    first = errors[0]
    line = first.source.place(first.span.start).line if first.source.text else None
    return Refused(render_text(errors), code, word=first.code, line=line)
