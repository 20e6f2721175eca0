"""`pasta fmt FILES...`: from paths to programs in canonical form, or to what would change."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pastalang.cli.exit_codes import EXIT_FINE, EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.output import say, say_document, tell
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import ProgramFile, read_all
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_text
from pastalang.grammar.format import format_source

CRLF = b"\r\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One program and its canonical text; None where it has errors."""

    given: ProgramFile
    text: str | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_changed(self) -> bool:
        has_mark = any(diagnostic.code == "byte-order-mark" for diagnostic in self.given.reading.diagnostics)
        return self.text is not None and (has_mark or self.text != self.given.reading.source.text)


@exits_with_code
def command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Programs, or folders of programs; - is the standard input.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if something would.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; show what would change.")] = False,
) -> None:
    if not files:
        raise Refused("pasta fmt needs at least one file or folder", EXIT_USAGE)
    outcomes = [_format(given) for given in read_all(files)]
    problems = [diagnostic for outcome in outcomes for diagnostic in outcome.diagnostics]
    if problems:
        tell(render_text(problems), end="")
    for outcome in outcomes:
        if diff:
            _show_diff(outcome)
        elif check:
            _say_if_changed(outcome, "would be reformatted")
        elif not _write(outcome):
            raise typer.Exit(EXIT_UNREADABLE)
    raise typer.Exit(_exit_code(outcomes, must_be_formatted=check or diff))


def _format(given: ProgramFile) -> Outcome:
    """Warnings are `pasta check`'s business; only errors stop the formatter."""
    if not given.reading.is_usable:
        return Outcome(given, None, given.reading.diagnostics)
    formatting = format_source(given.reading.source)
    return Outcome(given, formatting.text, formatting.diagnostics if formatting.text is None else ())


def _exit_code(outcomes: list[Outcome], *, must_be_formatted: bool) -> int:
    if not all(outcome.given.reading.was_opened for outcome in outcomes):
        return EXIT_UNREADABLE
    if any(outcome.text is None for outcome in outcomes):
        return EXIT_PROBLEMS
    return EXIT_PROBLEMS if must_be_formatted and any(outcome.is_changed for outcome in outcomes) else EXIT_FINE


def _show_diff(outcome: Outcome) -> None:
    if outcome.text is None or not outcome.is_changed:
        return
    source = outcome.given.reading.source
    before, after = source.text.splitlines(keepends=True), outcome.text.splitlines(keepends=True)
    for line in difflib.unified_diff(before, after, source.name, source.name + " (formatted)"):
        say_document(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n", end="")


def _say_if_changed(outcome: Outcome, what: str) -> None:
    if outcome.is_changed:
        say(f"{outcome.given.reading.source.name} {what}")


def _write(outcome: Outcome) -> bool:
    """Write the canonical text back, the standard input's to the standard output; False if that failed."""
    if outcome.text is None:
        return True
    if outcome.given.path is None:
        say_document(outcome.text, end="")
        return True
    if not outcome.is_changed:
        return True
    try:
        _replace(outcome.given.path.resolve(), outcome.text)
    except OSError as problem:
        tell(f"{outcome.given.path} could not be written: {problem.strerror}")
        return False
    _say_if_changed(outcome, "reformatted")
    return True


def _replace(path: Path, text: str) -> None:
    """Put the text in place of the file at once, so that nobody ever sees half of it. Line ends stay as they were."""
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
