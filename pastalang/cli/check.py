"""`pasta check FILES...`: from paths to findings on the screen and an exit code."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.output import say, say_document
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import ProgramFile, read_all
from pastalang.compiler import check_reading
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_github, render_json, render_text, summary


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


@exits_with_code
def command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Programs, or folders of programs; - is the standard input.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How the findings are written.")] = Format.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are problems, too.")] = False,
    explain_constraints: Annotated[
        bool, typer.Option("--explain-constraints", help="Print what becomes of each keyword of JSON Schema, and stop.")
    ] = False,
) -> None:
    if explain_constraints:
        from pastalang.values.schema.keywords import keyword_table

        say(keyword_table(), end="")
        return
    if not files:
        raise Refused("pasta check needs at least one file or folder", EXIT_USAGE)
    given = list(read_all(files))
    if not given:
        raise Refused(f"there are no programs in {', '.join(map(str, files))}", EXIT_USAGE)
    found = list(dict.fromkeys(finding for one in given for finding in _findings(one)))
    _write(found, len(given), format)
    raise typer.Exit(_exit_code(given, found, strict=strict))


def _findings(given: ProgramFile) -> tuple[Diagnostic, ...]:
    return check_reading(given.reading, path=given.path)[1]


def _exit_code(given: list[ProgramFile], found: list[Diagnostic], *, strict: bool) -> int:
    if not all(one.reading.was_opened for one in given):
        return EXIT_UNREADABLE
    return EXIT_PROBLEMS if any(finding.is_error or strict for finding in found) else 0


def _write(found: list[Diagnostic], files: int, format: Format) -> None:
    match format:
        case Format.TEXT:
            if found:
                say(render_text(found))
            say(f"checked {files} file{'s' if files != 1 else ''}: {summary(found)}")
        case Format.JSON:
            say_document(render_json(found), end="")
        case Format.GITHUB:
            say(render_github(found), end="")
