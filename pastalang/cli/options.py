"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pastalang.plan.plan import Mode

ProgramPaths: TypeAlias = Annotated[
    list[Path] | None, typer.Argument(help="Programs, or folders of programs. - is the standard input.")
]
TemplateName: TypeAlias = Annotated[str | None, typer.Option(help="The template to use, if the program has several.")]
DecodingMode: TypeAlias = Annotated[
    Mode, typer.Option(help="strict and lockstep decode values at the same time, sequential one after another.")
]
AnyMode: TypeAlias = Annotated[bool, typer.Option("--any-mode", help="Allow modes that the model was not trained for.")]
Device: TypeAlias = Annotated[str | None, typer.Option(help="cpu, cuda or mps. Default: the best one available.")]
Cells: TypeAlias = Annotated[int, typer.Option(min=1, help="The tokens that fit into memory.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
OutputFile: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of the standard output.")
]
