"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Protocol, TypeAlias

import typer

from pastalang.cli.exit_codes import EXIT_USAGE, Refused
from pastalang.limits import MAX_HOLE_TOKENS
from pastalang.plan.plan import Mode, Overrun, Placement
from pastalang.program.types import SAMPLING_BOUNDS, Drafts, Sampling
from pastalang.runtime.models.source import OWN, Adapter
from pastalang.values.one_hole import QUOTE_TOKENS

ProgramPaths: TypeAlias = Annotated[
    list[Path] | None, typer.Argument(help="Programs, or folders of programs. - is the standard input.")
]
TemplateName: TypeAlias = Annotated[str | None, typer.Option(help="The template to use, if the program has several.")]
DecodingMode: TypeAlias = Annotated[
    Mode, typer.Option(help="strict and lockstep decode values at the same time, sequential one after another.")
]
OverrunPolicy: TypeAlias = Annotated[
    Overrun,
    typer.Option(
        help="Where text goes on after branches that are longer than announced: one past them, at its own count as in "
        "the paper of PASTA, or cap: they are closed before."
    ),
]
PlacementName: TypeAlias = Annotated[
    Placement,
    typer.Option(help="Where values stand that do not see one another: in gaps one after the other, or dense."),
]
AnyMode: TypeAlias = Annotated[
    bool, typer.Option("--any-mode", help="Allow modes and tags that the model was not trained for.")
]
Device: TypeAlias = Annotated[str | None, typer.Option(help="cpu, cuda or mps. Default: the best one available.")]
ModelName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="A folder with a model, its name on the Hugging Face hub, or a server, http://host:8000/v1#name. Default: "
        "see pasta models.",
    ),
]
ApiKey: TypeAlias = Annotated[
    str | None, typer.Option("--api-key", envvar="PASTALANG_API_KEY", help="The key that a server asks for.")
]
AdapterName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--adapter", help="An adapter for the model, by its name or folder; none: the bare weights. Default: its own."
    ),
]
Cells: TypeAlias = Annotated[int, typer.Option(min=1, help="The tokens that fit into memory.")]
SomeCells: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="The tokens that fit into memory. Default: 8,192.")
]
ColumnMap: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PART=COLUMN",
        help="The column of an input, of value, or of value.KEY, if it has another name. May be repeated.",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
OutputFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Write to this file instead of the standard output, which - stands for.",
        callback=lambda path: None if str(path) == "-" else path,
    ),
]  # fmt: skip
MaxTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=QUOTE_TOKENS + 1, max=MAX_HOLE_TOKENS,
        help="The most tokens of a text whose type sets no limit. Default: by the room of the answer, at most 64.",
    ),
]  # fmt: skip
Temperature: TypeAlias = Annotated[
    float | None, typer.Option(help="0 takes the most probable token. For values whose program sets no temperature.")
]
TopP: TypeAlias = Annotated[
    float | None, typer.Option("--top-p", help="Sample from the most probable tokens that add up to this probability.")
]
TopK: TypeAlias = Annotated[int | None, typer.Option("--top-k", help="Sample from this many most probable tokens.")]


GuessAhead: TypeAlias = Annotated[
    str | None,
    typer.Option("--drafts", metavar="auto|off|N", help="Guess tokens ahead: fewer passes, the same answer."),
]


def adapter_of(given: str | None) -> Adapter:
    return OWN if given is None else None if given == "none" else given


def columns_of(given: list[str] | None) -> dict[str, str]:
    """The column of each part of a row that `--map` names. Raises `Refused`."""
    found: dict[str, str] = {}
    for one in given or ():
        part, _, column = one.partition("=")
        if not part or not column:
            raise Refused(f"--map takes PART=COLUMN, such as title=name, not {one}", EXIT_USAGE)
        if part in found:
            raise Refused(f"--map names a column for {part} twice: {found[part]} and {column}", EXIT_USAGE)
        found[part] = column
    return found


def drafts_of(given: str | None) -> Drafts | None:
    """Raises `Refused`."""
    if given in (None, "auto", "off"):
        return given  # type: ignore[return-value]
    if given is not None and given.isascii() and given.isdigit() and int(given):
        return int(given)
    raise Refused(f"--drafts takes auto, off or a whole number of at least 1, not {given}", EXIT_USAGE)


class SamplingSettings(Protocol):
    """The settings of a command that samples."""

    @property
    def temperature(self) -> float | None: ...
    @property
    def top_p(self) -> float | None: ...
    @property
    def top_k(self) -> int | None: ...


def sampling_of(settings: SamplingSettings) -> Sampling | None:
    """What the options say; None if none is given. Raises `Refused`."""
    given = {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k}
    for name, value in given.items():
        bounds = SAMPLING_BOUNDS[name]
        if value is not None and not bounds.accepts(value):
            option = f"--{name.replace('_', '-')}"
            raise Refused(f"{option} takes {bounds.expected}, not {value:g}", EXIT_USAGE)
    if all(value is None for value in given.values()):
        return None
    return Sampling(temperature=settings.temperature, top_p=settings.top_p, top_k=settings.top_k)
