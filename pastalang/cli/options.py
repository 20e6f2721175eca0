"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias

import typer

from pastalang.cli.exit_codes import EXIT_USAGE, Refused
from pastalang.limits import MAX_HOLE_TOKENS
from pastalang.plan.branches import Mode, Overrun, Placement
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
        help="Where text continues after branches that are longer than announced: after their end, at its own count as "
        "in the PASTA paper, or at the announced end, where cap closes them."
    ),
]
PlacementName: TypeAlias = Annotated[
    Placement,
    typer.Option(help="The positions of values that do not see one another: gaps one after the other, or dense."),
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
    str | None, typer.Option("--api-key", envvar="PASTALANG_API_KEY", help="The API key of a server.")
]
AdapterName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--adapter",
        help="A LoRA adapter for the model: a name or a folder. none loads the bare weights. Default: the model's own.",
    ),
]


ComputedIn: TypeAlias = Annotated[
    Literal["float32", "bfloat16", "int8"] | None,
    typer.Option(help="The data type to compute in; int8: of weights, on a CPU. Default: the best one for the device."),
]
Cells: TypeAlias = Annotated[int, typer.Option(min=1, help="Size of the KV cache, in tokens.")]
SomeCells: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Size of the KV cache, in tokens. Default: 8,192.")
]
ColumnMap: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PART=COLUMN",
        help="The column that holds an input, value or value.KEY, if it has another name. May be repeated.",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
OutputFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Write to this file; - is the standard output, the default.",
        callback=lambda path: None if str(path) == "-" else path,
    ),
]  # fmt: skip
MaxTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=QUOTE_TOKENS + 1, max=MAX_HOLE_TOKENS,
        help="Maximum tokens for a text whose type sets no limit. Default: what the answer has room for, at most 64.",
    ),
]  # fmt: skip
Temperature: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Sampling temperature, unless the program sets one; 0 takes the most probable token."),
]
TopP: TypeAlias = Annotated[
    float | None,
    typer.Option("--top-p", help="Sample from the most probable tokens whose probabilities add up to this."),
]
TopK: TypeAlias = Annotated[
    int | None, typer.Option("--top-k", help="Sample from this many of the most probable tokens.")
]


GuessAhead: TypeAlias = Annotated[
    str | None,
    typer.Option("--drafts", metavar="auto|off|N", help="Speculative drafts: fewer passes, the same answer."),
]


def is_typed(context: typer.Context, option: str) -> bool:
    """Whether an option stands on the command line, not in a file of options."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def refuse_both(why: str, *given: object) -> None:
    """Raises `Refused` if both options are given."""
    if all(one is not None and one is not False for one in given):
        raise Refused(f"{why}: pass one of them", EXIT_USAGE)


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


def names_in(given: str | None) -> tuple[str, ...]:
    """The columns that `--columns` names. Raises `Refused`."""
    try:
        [names] = csv.reader([given or ""], skipinitialspace=True, strict=True)
    except csv.Error as problem:
        what = "names with commas between them, as in a row of CSV"
        raise Refused(f"--columns takes {what}, not {given}", EXIT_USAGE) from problem
    return tuple(name.strip() for name in names if name.strip())


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
