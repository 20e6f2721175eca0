"""`pasta import module:Model` or `pasta import schema.json`: from somebody's types to a program that asks for them."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.output import refuse_overwriting, say_document, tell
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import refused_findings
from pastalang.compiler import check_source
from pastalang.limits import DEFAULT_ITEMS, MAX_SCHEMA_BYTES
from pastalang.values.conversion import Converted, NotExpressible, unbounded_lists
from pastalang.values.to_source import program_source


@exits_with_code
def command(
    source: Annotated[str, typer.Argument(help="A Pydantic model as module:Model, or a JSON Schema file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    name: Annotated[str | None, typer.Option(help="What the template is called; else the model's name.")] = None,
) -> None:
    refuse_overwriting(output, source)
    try:
        found, model_name = _convert(source)
        text = program_source(found, name=name or model_name)
    except NotExpressible as refusal:
        raise Refused(str(refusal), EXIT_PROBLEMS) from None
    for note in found.notes:
        tell(f"note: {note}")
    for path in unbounded_lists(found):
        tell(f"note: {path or 'the list'}: ends after {DEFAULT_ITEMS} items, as it names no maximum")
    program, findings = check_source(text, name=str(output or "<import>"))
    if program is None:
        raise refused_findings(findings, EXIT_PROBLEMS)
    _write(text, output)


def _convert(source: str) -> tuple[Converted, str]:
    module, colon, name = source.rpartition(":")
    if colon and not source.endswith(".json"):
        from pastalang.values.pydantic.from_core import is_record, type_of_model

        model = _find_model(module, name)
        if not is_record(model):
            raise Refused(f"{source} is no class with fields: a Pydantic model, a dataclass or a TypedDict", EXIT_USAGE)
        return type_of_model(model), name.rpartition(".")[2]
    from pastalang.values.schema.importer import type_of_schema

    path = Path(source)
    return type_of_schema(_read(path), name=path.stem), path.stem


def _find_model(module: str, name: str) -> Any:
    """The class; the current folder can be imported from, as with `python -m`."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found: Any = _imported(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise Refused(f"the module {module!r} has no {name!r}", EXIT_USAGE) from None
    return found


def _imported(module: str) -> Any:
    """A module is somebody's program: whatever it does while it is imported is told."""
    try:
        with redirect_stdout(sys.stderr):  # what it prints is no part of the program that is written
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
        text = data.decode("utf-8-sig")
    except OSError as error:
        if path.suffix == "":
            raise Refused(f"{path} is neither module:Model nor a JSON Schema file", EXIT_USAGE) from None
        raise Refused(f"{path} cannot be read: {(error.strerror or str(error)).lower()}", EXIT_UNREADABLE) from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text", EXIT_UNREADABLE) from None
    if len(data) > MAX_SCHEMA_BYTES:
        raise Refused(f"{path} is larger than {MAX_SCHEMA_BYTES:,} bytes", EXIT_PROBLEMS)
    return text


def _write(text: str, output: Path | None) -> None:
    if output is None:
        say_document(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(
            f"{output} cannot be written: {(error.strerror or str(error)).lower()}", EXIT_UNREADABLE
        ) from None
    tell(f"wrote {output}")
