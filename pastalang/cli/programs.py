"""The commands for programs: `pasta check`, `pasta fmt`, `pasta import`, and `pasta lsp` for editors."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from pastalang.cli.exit_codes import EXIT_FINE, EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.options import OutputFile, ProgramPaths
from pastalang.cli.output import (
    coloured,
    echo,
    echo_document,
    echo_error,
    refuse_overwriting,
    show_notes,
    unwritable,
    write_file,
)
from pastalang.cli.process import command
from pastalang.cli.sources import (
    NAME,
    ProgramFile,
    decoded_schema,
    find_model,
    is_standard_input,
    read_all,
    read_standard_input,
    refused_findings,
    schema_text,
)
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_github, render_json, render_text, summary
from pastalang.limits import MAX_SCHEMA_BYTES

if TYPE_CHECKING:  # each command imports what it needs, and no more
    from pastalang.program.program import Program
    from pastalang.values.conversion import Converted


Format: TypeAlias = Literal["text", "json", "github"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """The arguments and options of `pasta check`."""

    files: ProgramPaths = None
    format: Annotated[Format, typer.Option(help="Output format.")] = "text"
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as problems.")] = False
    explain_constraints: Annotated[
        bool, typer.Option("--explain-constraints", help="Show how each keyword of JSON Schema is enforced, and exit.")
    ] = False
    model: Annotated[
        str | None,
        typer.Option(help="Try every value with the tokenizer of this model: a folder, or a name on the hub."),
    ] = None


@command(CheckSettings)
def check_command(settings: CheckSettings) -> None:
    if settings.explain_constraints:
        from pastalang.values.schema.keywords import keyword_table

        echo(keyword_table(), end="")
        return
    if not settings.files:
        raise Refused("pasta check needs at least one file or folder", EXIT_USAGE)
    programs = _programs(settings.files)
    tokenizer = None if settings.model is None else _tokenizer_of(settings.model)
    found = list(dict.fromkeys(finding for program in programs for finding in _findings(program, tokenizer)))
    _print(found, len(programs), settings.format)
    raise typer.Exit(_exit_code(programs, found, strict=settings.strict))


def _programs(files: list[Path]) -> list[ProgramFile]:
    """Raises `Refused` if there are none."""
    found = list(read_all(files))
    if not found:
        raise Refused(f"there are no programs in {', '.join(map(str, files))}", EXIT_USAGE)
    return found


def _tokenizer_of(model: str) -> object:
    from pastalang.cli.models import load_tokenizer

    return load_tokenizer(model)


def _findings(program: ProgramFile, tokenizer: object | None) -> tuple[Diagnostic, ...]:
    from pastalang.compiler import check_reading

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
        case "text":
            if found:
                echo(coloured(render_text(found), sys.stdout))
            echo(f"checked {files} file{'s' if files != 1 else ''}: {summary(found)}")
        case "json":
            echo_document(render_json(found), end="")
        case "github":
            echo(render_github(found), end="")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One program and its canonical text, which is None if the program has errors."""

    program: ProgramFile
    text: str | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def written(self) -> str:
        """The text with the line ends of the program."""
        return (self.text or "").replace("\n", self.program.reading.line_end)

    @property
    def is_changed(self) -> bool:
        has_mark = any(diagnostic.code == "byte-order-mark" for diagnostic in self.program.reading.diagnostics)
        return self.text is not None and (has_mark or self.text != self.program.reading.source.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FmtSettings:
    """The arguments and options of `pasta fmt`."""

    files: ProgramPaths = None
    check: Annotated[
        bool,
        typer.Option("--check", help="Change no file; list those that would change, and exit with 1 if any do."),
    ] = False
    diff: Annotated[bool, typer.Option("--diff", help="Like --check, but show the changes.")] = False


@command(FmtSettings)
def fmt_command(settings: FmtSettings) -> None:
    if not settings.files:
        raise Refused("pasta fmt needs at least one file or folder", EXIT_USAGE)
    outcomes = [_format(program) for program in _programs(settings.files)]
    problems = [diagnostic for outcome in outcomes for diagnostic in outcome.diagnostics]
    if problems:
        echo_error(coloured(render_text(problems), sys.stderr), end="")
    for outcome in outcomes:
        if settings.diff:
            _show_diff(outcome)
        elif settings.check:
            _report_if_changed(outcome, "would be reformatted")
        else:
            _write(outcome)
    raise typer.Exit(_format_exit_code(outcomes, must_be_formatted=settings.check or settings.diff))


def _format(program: ProgramFile) -> Outcome:
    """Only errors stop the formatter. `pasta check` reports the warnings."""
    if not program.reading.is_usable:
        return Outcome(program, None, program.reading.diagnostics)
    from pastalang.grammar.format import format_source

    formatting = format_source(program.reading.source)
    return Outcome(program, formatting.text, formatting.diagnostics if formatting.text is None else ())


def _format_exit_code(outcomes: list[Outcome], *, must_be_formatted: bool) -> int:
    if not all(outcome.program.reading.was_opened for outcome in outcomes):
        return EXIT_UNREADABLE
    if any(outcome.text is None for outcome in outcomes):
        return EXIT_PROBLEMS
    return EXIT_PROBLEMS if must_be_formatted and any(outcome.is_changed for outcome in outcomes) else EXIT_FINE


def _show_diff(outcome: Outcome) -> None:
    if outcome.text is None or not outcome.is_changed:
        return
    source = outcome.program.reading.source
    if source.text == outcome.text:
        echo(f"{source.name}: only the byte order mark at its beginning would go")
    before, after = ([*io.StringIO(text)] for text in (source.text, outcome.text))
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
        echo_document(outcome.written, end="")
        return
    if not outcome.is_changed:
        return
    try:
        _replace(outcome.program.path.resolve(), outcome.written)
    except OSError as problem:
        raise unwritable(outcome.program.path, problem) from problem
    _report_if_changed(outcome, "reformatted")


def _replace(path: Path, text: str) -> None:
    """Replace the file in one step, so that no reader sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode("utf-8"))
        Path(temporary).chmod(path.stat().st_mode)
        Path(temporary).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """The arguments and options of `pasta import`."""

    source: Annotated[
        str,
        typer.Argument(help="A Pydantic model, written module:Model, or a JSON Schema file; - is the standard input."),
    ]
    output: OutputFile = None
    name: Annotated[
        str | None, typer.Option(help="The name of the template. Default: the name of the model or the file.")
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it is another program.")] = False


@command(ImportSettings)
def import_command(settings: ImportSettings) -> None:
    refuse_overwriting(settings.output, settings.source)
    from pastalang.values.conversion import NotExpressible
    from pastalang.values.to_source import program_source

    try:
        found, model_name = _convert(settings.source)
        text = program_source(found, name=settings.name or model_name)
    except NotExpressible as refusal:
        raise Refused(str(refusal), EXIT_PROBLEMS) from None
    show_notes(*map(str, found.notes))
    _check_import(text, settings.output)
    if not settings.overwrite:
        _refuse_replacing(text, settings.output)
    _write_program(text, settings.output)


def _check_import(text: str, output: Path | None) -> None:
    """Raises `Refused` if the program that was made cannot be decoded; notes the limits that were chosen."""
    from pastalang.compiler import check_source
    from pastalang.plan.chosen_limits import chosen_limits
    from pastalang.runtime.binding.trial import find_unenforceable

    program, findings = check_source(text, name=str(output or "<import>"))
    if program is None:
        raise refused_findings(findings, EXIT_PROBLEMS)
    if unenforceable := find_unenforceable(program):
        raise refused_findings(unenforceable, EXIT_PROBLEMS)
    show_notes(*chosen_limits(program))


def _convert(source: str) -> tuple[Converted, str]:
    module, colon, name = source.rpartition(":")
    if colon and not source.endswith(".json"):
        from pastalang.values.pydantic.from_core import is_type, type_of_model

        model = find_model(module, name)
        if not is_type(model):
            raise Refused(f"{source} is not a Pydantic model, a dataclass, a TypedDict or another type", EXIT_USAGE)
        return type_of_model(model), name.rpartition(".")[2]
    from pastalang.values.schema.importer import type_of_schema

    if is_standard_input(source):
        return type_of_schema(decoded_schema(read_standard_input(MAX_SCHEMA_BYTES + 1), NAME), name=NAME), "answer"
    path = Path(source)
    return type_of_schema(schema_text(path), name=path.stem), path.stem


def _refuse_replacing(text: str, output: Path | None) -> None:
    """A program that was imported is a file that people go on writing."""
    if output is not None and output.is_file() and output.read_bytes() != text.encode():
        raise Refused(f"{output} exists and is another program: pass --overwrite to replace it", EXIT_USAGE)


def _write_program(text: str, output: Path | None) -> None:
    if output is None:
        echo_document(text, end="")
        return
    write_file(output, text)
    echo_error(f"wrote {output}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LspSettings:
    """`pasta lsp` has no options: editors start it."""


@command(LspSettings)
def lsp_command(settings: LspSettings) -> None:
    try:
        server = import_module("pastalang.lsp.server")
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise Refused("pasta lsp needs pygls: pip install 'pastalang[lsp]'", EXIT_USAGE) from problem
    server.make_server().start_io()
