"""`pasta check FILES...`: report the problems in programs."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from pastalang.cli.colour import coloured
from pastalang.cli.exit_codes import EXIT_FINE, EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.model_source import load_tokenizer
from pastalang.cli.options import ProgramPaths
from pastalang.cli.output import echo, echo_document
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import ProgramFile, read_all
from pastalang.compiler import check_reading
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_github, render_json, render_text, summary
from pastalang.program.program import Program


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


@exits_with_code
def command(
    files: ProgramPaths = None,
    format: Annotated[Format, typer.Option(help="How the problems are printed.")] = Format.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as problems.")] = False,
    explain_constraints: Annotated[
        bool, typer.Option("--explain-constraints", help="Show how each keyword of JSON Schema is enforced, and exit.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Try every value with the tokenizer of this model: a folder, or a name on the hub."),
    ] = None,
) -> None:
    if explain_constraints:
        from pastalang.values.schema.keywords import keyword_table

        echo(keyword_table(), end="")
        return
    if not files:
        raise Refused("pasta check needs at least one file or folder", EXIT_USAGE)
    programs = list(read_all(files))
    if not programs:
        raise Refused(f"there are no programs in {', '.join(map(str, files))}", EXIT_USAGE)
    tokenizer = None if model is None else load_tokenizer(model)
    found = list(dict.fromkeys(finding for program in programs for finding in _findings(program, tokenizer)))
    _print(found, len(programs), format)
    raise typer.Exit(_exit_code(programs, found, strict=strict))


def _findings(program: ProgramFile, tokenizer: object | None) -> tuple[Diagnostic, ...]:
    checked, findings = check_reading(program.reading, path=program.path)
    return findings if checked is None else (*findings, *_unenforceable(checked, tokenizer))


def _unenforceable(program: Program, tokenizer: object | None) -> tuple[Diagnostic, ...]:
    from pastalang.runtime.binding.trial import find_unenforceable, find_unwritable

    found = find_unenforceable(program)
    return found if found or tokenizer is None else find_unwritable(program, tokenizer)


def _exit_code(programs: list[ProgramFile], found: list[Diagnostic], *, strict: bool) -> int:
    if not all(program.reading.was_opened for program in programs):
        return EXIT_UNREADABLE
    return EXIT_PROBLEMS if any(finding.is_error or strict for finding in found) else EXIT_FINE


def _print(found: list[Diagnostic], files: int, format: Format) -> None:
    match format:
        case Format.TEXT:
            if found:
                echo(coloured(render_text(found), sys.stdout))
            echo(f"checked {files} file{'s' if files != 1 else ''}: {summary(found)}")
        case Format.JSON:
            echo_document(render_json(found), end="")
        case Format.GITHUB:
            echo(render_github(found), end="")
