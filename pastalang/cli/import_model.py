"""`pasta import module:Model` or `pasta import schema.json`: write a program that asks for a value of it."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.options import OutputFile
from pastalang.cli.output import echo_document, echo_error, reason_of, refuse_overwriting, write_file
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import refused_findings
from pastalang.cli.standard_input import NAME, is_standard_input, read_standard_input
from pastalang.compiler import check_source
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.limits import MAX_SCHEMA_BYTES
from pastalang.plan.chosen_limits import chosen_limits
from pastalang.values.conversion import Converted, NotExpressible
from pastalang.values.to_source import program_source


@exits_with_code
def command(
    source: Annotated[
        str,
        typer.Argument(help="A Pydantic model, written module:Model, or a JSON Schema file; - is the standard input."),
    ],
    output: OutputFile = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the template. Default: the name of the model or the file.")
    ] = None,
) -> None:
    refuse_overwriting(output, source)
    try:
        found, model_name = _convert(source)
        text = program_source(found, name=name or model_name)
    except NotExpressible as refusal:
        raise Refused(str(refusal), EXIT_PROBLEMS) from None
    for note in found.notes:
        echo_error(f"note: {note}")
    from pastalang.runtime.binding.trial import find_unenforceable

    program, findings = check_source(text, name=str(output or "<import>"))
    if program is None:
        raise refused_findings(findings, EXIT_PROBLEMS)
    if unenforceable := find_unenforceable(program):
        raise refused_findings(unenforceable, EXIT_PROBLEMS)
    for limit in chosen_limits(program):
        echo_error(f"note: {limit}")
    _write(text, output)


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
        return type_of_schema(_decoded(read_standard_input(MAX_SCHEMA_BYTES + 1), NAME), name=NAME), "answer"
    path = Path(source)
    return type_of_schema(_read(path), name=path.stem), path.stem


def find_model(module: str, name: str) -> Any:
    """The named object of the module. Modules in the current folder can be imported, as with `python -m`."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if module.endswith(".py"):
        dotted = module.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")
        raise Refused(f"{module} is a file: write {dotted}:{name}, as in an import", EXIT_USAGE)
    found: Any = _imported(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        close = did_you_mean(part, dir(found))
        hint = f"; did you mean {close!r}?" if close else ""
        raise Refused(f"the module {module!r} has no {name!r}{hint}", EXIT_USAGE) from None
    return found


def _imported(module: str) -> Any:
    """Import a module of the user, which may do anything while it is imported. Raises `Refused` if that fails."""
    try:
        with redirect_stdout(sys.stderr):  # the standard output is for the written program
            return importlib.import_module(module)
    except (ImportError, ValueError) as error:
        reason = str(error)
    except SystemExit as left:
        reason = f"it calls sys.exit({left.code!r})"
    except Exception as error:
        reason = f"it raises {type(error).__name__}: {error}"
    raise Refused(f"the module {module!r} cannot be imported: {reason}", EXIT_UNREADABLE)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        if path.suffix == "":
            raise Refused(f"{path} is neither module:Model nor a JSON Schema file", EXIT_USAGE) from None
        raise Refused(f"{path} could not be read: {reason_of(error)}", EXIT_UNREADABLE) from None
    return _decoded(data, str(path))


def _decoded(data: bytes, name: str) -> str:
    if len(data) > MAX_SCHEMA_BYTES:
        raise Refused(f"{name} is larger than {MAX_SCHEMA_BYTES:,} bytes", EXIT_PROBLEMS)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(f"{name} could not be read: it is not UTF-8 text", EXIT_UNREADABLE) from None


def _write(text: str, output: Path | None) -> None:
    if output is None:
        echo_document(text, end="")
        return
    write_file(output, text)
    echo_error(f"wrote {output}")
