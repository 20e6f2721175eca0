"""`pasta plan FILE`: from a program to a picture of its plan."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from pastalang.cli.files import EXIT_UNREADABLE, EXIT_USAGE
from pastalang.cli.plan_source import read_plan
from pastalang.cli.refused import Refused
from pastalang.cli.tokenizer import load_counter
from pastalang.plan.draw.stretches import Count, estimate
from pastalang.plan.plan import Mode, Plan


class Format(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


def command(
    file: Annotated[Path | None, typer.Argument(help="A program; - is the standard input.")] = None,
    template: Annotated[str | None, typer.Option(help="Which template, where the program has several.")] = None,
    mode: Annotated[Mode, typer.Option(help="How the values of a JSON answer relate to one another.")] = Mode.STRICT,
    format: Annotated[Format, typer.Option(help="What is written.")] = Format.TEXT,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer.json, or a folder with a tokenizer: counts exactly.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write to.")] = None,
) -> None:
    try:
        _write(_show(_plan(file, template, mode), format, _counter(tokenizer)), output)
    except Refused as refused:
        typer.echo(refused.message, err=True)
        raise typer.Exit(refused.code) from refused


def _plan(file: Path | None, template: str | None, mode: Mode) -> Plan:
    if file is None:
        raise Refused("pasta plan needs a program", EXIT_USAGE)
    return read_plan(file, template=template, mode=mode)


def _counter(tokenizer: Path | None) -> Count:
    return estimate if tokenizer is None else load_counter(tokenizer)


def _show(plan: Plan, format: Format, count: Count) -> str:
    """Only the module of the format that is asked for is imported."""
    match format:
        case Format.TEXT:
            from pastalang.plan.draw.text import draw_text

            return draw_text(plan, ascii_only=not _can_show_blocks())
        case Format.MERMAID:
            from pastalang.plan.draw.mermaid import draw_mermaid

            return draw_mermaid(plan)
        case Format.DOT:
            from pastalang.plan.draw.dot import draw_dot

            return draw_dot(plan)
        case Format.SVG:
            from pastalang.plan.draw.svg import draw_svg

            return draw_svg(plan, count=count)
    assert_never(format)


def _can_show_blocks() -> bool:
    try:
        "█▓░·×→…◆".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise Refused(f"{output} could not be written: {reason}", EXIT_UNREADABLE) from error
