"""`pasta fmt FILES...`: rewrite programs in their canonical form, or show what would change."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pastalang.cli.colour import coloured
from pastalang.cli.exit_codes import EXIT_FINE, EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.options import ProgramPaths
from pastalang.cli.output import echo, echo_document, echo_error, unwritable
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import ProgramFile, read_all
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_text
from pastalang.grammar.format import format_source

CRLF = b"\r\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One program and its canonical text, which is None if the program has errors."""

    program: ProgramFile
    text: str | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_changed(self) -> bool:
        has_mark = any(diagnostic.code == "byte-order-mark" for diagnostic in self.program.reading.diagnostics)
        return self.text is not None and (has_mark or self.text != self.program.reading.source.text)


@exits_with_code
def command(
    files: ProgramPaths = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change no file; list those that would change, and exit with 1 if any do."),
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Like --check, but show the changes.")] = False,
) -> None:
    if not files:
        raise Refused("pasta fmt needs at least one file or folder", EXIT_USAGE)
    outcomes = [_format(program) for program in read_all(files)]
    problems = [diagnostic for outcome in outcomes for diagnostic in outcome.diagnostics]
    if problems:
        echo_error(coloured(render_text(problems), sys.stderr), end="")
    for outcome in outcomes:
        if diff:
            _show_diff(outcome)
        elif check:
            _report_if_changed(outcome, "would be reformatted")
        else:
            _write(outcome)
    raise typer.Exit(_exit_code(outcomes, must_be_formatted=check or diff))


def _format(program: ProgramFile) -> Outcome:
    """Only errors stop the formatter. `pasta check` reports the warnings."""
    if not program.reading.is_usable:
        return Outcome(program, None, program.reading.diagnostics)
    formatting = format_source(program.reading.source)
    return Outcome(program, formatting.text, formatting.diagnostics if formatting.text is None else ())


def _exit_code(outcomes: list[Outcome], *, must_be_formatted: bool) -> int:
    if not all(outcome.program.reading.was_opened for outcome in outcomes):
        return EXIT_UNREADABLE
    if any(outcome.text is None for outcome in outcomes):
        return EXIT_PROBLEMS
    return EXIT_PROBLEMS if must_be_formatted and any(outcome.is_changed for outcome in outcomes) else EXIT_FINE


def _show_diff(outcome: Outcome) -> None:
    if outcome.text is None or not outcome.is_changed:
        return
    source = outcome.program.reading.source
    before, after = source.text.splitlines(keepends=True), outcome.text.splitlines(keepends=True)
    for line in difflib.unified_diff(before, after, source.name, source.name + " (formatted)"):
        echo_document(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n", end="")


def _report_if_changed(outcome: Outcome, verb: str) -> None:
    if outcome.is_changed:
        echo(f"{outcome.program.reading.source.name} {verb}")


def _write(outcome: Outcome) -> None:
    """Write the canonical text back to its file; that of the standard input goes to the standard output."""
    if outcome.text is None:
        return
    if outcome.program.path is None:
        echo_document(outcome.text, end="")
        return
    if not outcome.is_changed:
        return
    try:
        _replace(outcome.program.path.resolve(), outcome.text)
    except OSError as problem:
        raise unwritable(outcome.program.path, problem) from problem
    _report_if_changed(outcome, "reformatted")


def _replace(path: Path, text: str) -> None:
    """Replace the file in one step, so that no reader sees half of it. Line ends stay as they were."""
    data = text.encode("utf-8")
    if CRLF in path.read_bytes():
        data = data.replace(b"\n", CRLF)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).chmod(path.stat().st_mode)
        Path(temporary).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
