"""`pasta import module:Model` or `pasta import schema.json`: from somebody's types to a program that asks for them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pastalang.cli.files import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE
from pastalang.compile import check_source
from pastalang.diagnostics.render import render_text
from pastalang.limits import MAX_SCHEMA_BYTES
from pastalang.values.converted import Converted, NotExpressible
from pastalang.values.to_source import program_source


def command(
    source: Annotated[str, typer.Argument(help="A Pydantic model as module:Model, or a JSON Schema file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    name: Annotated[str | None, typer.Option(help="What the template is called; else the model's name.")] = None,
) -> None:
    try:
        found, model_name = _convert(source)
    except NotExpressible as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(EXIT_PROBLEMS) from None
    text = program_source(found, name=name or model_name)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    errors = [finding for finding in check_source(text, name=str(output or "<import>"))[1] if finding.is_error]
    if errors:
        typer.echo(render_text(errors), err=True)
        raise typer.Exit(EXIT_PROBLEMS)
    _write(text, output)


def _convert(source: str) -> tuple[Converted, str]:
    module, colon, name = source.rpartition(":")
    if colon and not source.endswith(".json"):
        from pastalang.values.pydantic_model import type_of_model

        return type_of_model(_find_model(module, name)), name.rpartition(".")[2]
    from pastalang.values.from_json_schema import type_of_schema

    path = Path(source)
    return type_of_schema(_read(path), name=path.stem), path.stem


def _find_model(module: str, name: str) -> Any:
    """The class; the current folder can be imported from, as with `python -m`."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, ValueError) as error:
        typer.echo(f"the module {module!r} cannot be imported: {error}", err=True)
        raise typer.Exit(EXIT_UNREADABLE) from None
    except AttributeError:
        typer.echo(f"the module {module!r} has no {name!r}", err=True)
        raise typer.Exit(EXIT_USAGE) from None
    if not isinstance(found, type):
        typer.echo(f"{module}:{name} is not a class", err=True)
        raise typer.Exit(EXIT_USAGE)
    return found


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SCHEMA_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        if path.suffix == "":
            typer.echo(f"{path} is neither module:Model nor a JSON Schema file", err=True)
            raise typer.Exit(EXIT_USAGE) from None
        typer.echo(f"{path} cannot be read: {(error.strerror or str(error)).lower()}", err=True)
        raise typer.Exit(EXIT_UNREADABLE) from None
    except UnicodeDecodeError:
        typer.echo(f"{path} is not UTF-8 text", err=True)
        raise typer.Exit(EXIT_UNREADABLE) from None
    if len(data) > MAX_SCHEMA_BYTES:
        typer.echo(f"{path} is larger than {MAX_SCHEMA_BYTES:,} bytes", err=True)
        raise typer.Exit(EXIT_PROBLEMS)
    return text


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        typer.echo(f"{output} cannot be written: {(error.strerror or str(error)).lower()}", err=True)
        raise typer.Exit(EXIT_UNREADABLE) from None
    typer.echo(f"wrote {output}", err=True)
