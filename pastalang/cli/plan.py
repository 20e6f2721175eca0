"""`pasta plan FILE`: draw a plan, or show how two plans differ."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, assert_never

import typer

from pastalang.cli.exit_codes import EXIT_FINE, EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.options import DecodingMode, MaxTokens, OutputFile, OverrunPolicy, PlacementName, TemplateName
from pastalang.cli.output import echo, echo_document, echo_error, refuse_overwriting, write_file
from pastalang.cli.process import command
from pastalang.cli.sources import plan_of, refuse_second
from pastalang.plan.branches import Mode, Overrun, Placement
from pastalang.plan.diff import differences
from pastalang.plan.forecast import Capacity, DoesNotFit, fit
from pastalang.plan.plan import Plan
from pastalang.plan.token_bounds import Encoder, Lengths

USUAL_WIDTH, NARROWEST, WIDEST = 96, 56, 160  # columns of a drawing


Format: TypeAlias = Literal["text", "json", "svg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The arguments and options of `pasta plan`."""

    context: typer.Context
    file: Annotated[
        Path | None, typer.Argument(help="A program, or a plan saved as JSON. - is the standard input.")
    ] = None
    template: TemplateName = None
    mode: DecodingMode = Mode.STRICT
    overrun: OverrunPolicy = Overrun.CONTINUE
    placement: PlacementName = Placement.GAPS
    max_tokens: MaxTokens = None
    format: Annotated[Format, typer.Option(help="Output format; json can be loaded again.")] = "text"
    tokenizer: Annotated[
        Path | None, typer.Option(help="Count text in tokens: a tokenizer.json, or a folder with a tokenizer.")
    ] = None
    positions: Annotated[
        int | None, typer.Option(min=1, help="The model's context length. A plan that needs more is rejected.")
    ] = None
    cells: Annotated[
        int | None,
        typer.Option(min=1, help="Size of the KV cache, in tokens. A plan that cannot fit is rejected."),
    ] = None
    output: OutputFile = None
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help="Compare two programs or saved plans, and exit with 1 if they differ."),
    ] = None


@command(PlanSettings)
def plan_command(settings: PlanSettings) -> None:
    pair = settings.diff or ()
    refuse_second(settings.file, *pair)
    refuse_overwriting(settings.output, settings.file, *pair, settings.tokenizer)
    if settings.diff is not None:
        raise typer.Exit(_compare(settings, settings.diff))
    if settings.file is None:
        raise Refused("pasta plan needs a program, or --diff with two", EXIT_USAGE)
    plan = plan_of(settings.file, settings)
    lengths = Lengths(None if settings.tokenizer is None else load_encoder(settings.tokenizer))
    _check_fit(plan, Capacity(settings.positions, settings.cells), lengths)
    width = _columns() if settings.output is None else USUAL_WIDTH
    drawn = _show(plan, settings.format, lengths, width)
    _write(drawn, settings.output, is_document=settings.format != "text")


def _compare(settings: PlanSettings, pair: tuple[Path, Path]) -> int:
    """Returns 0 if the plans are the same and 1 if they differ, like `diff`."""
    if settings.file is not None:
        raise Refused("pasta plan takes either one program or --diff with two, not both", EXIT_USAGE)
    old, new = (plan_of(path, settings) for path in pair)
    found = differences(old, new)
    _write("".join(f"{line}\n" for line in found or ("the plans are the same",)), settings.output)
    return EXIT_PROBLEMS if found else EXIT_FINE


def _check_fit(plan: Plan, limits: Capacity, lengths: Lengths) -> None:
    if limits == Capacity():
        return
    try:
        found = fit(plan, limits, lengths)
    except DoesNotFit as error:
        raise Refused(str(error), EXIT_PROBLEMS) from error
    most = found.peak_cells.high
    if limits.cells is not None and most > limits.cells:
        echo_error(
            f"note: the longest run of this plan needs {most:,} cells at once, and there are {limits.cells:,}. "
            "In such a run branches wait for one another; the answer stays the same"
        )


def _show(plan: Plan, format: Format, lengths: Lengths, width: int) -> str:
    """Imports only the module of the requested format."""
    match format:
        case "text":
            from pastalang.plan.draw.terminal import draw_text

            return draw_text(plan, lengths=lengths, width=width, ascii_only=not _can_show_blocks())
        case "json":
            from pastalang.plan.serialise import to_json

            return to_json(plan)
        case "svg":
            from pastalang.plan.draw.svg import draw_svg

            return draw_svg(plan, lengths=lengths)
    assert_never(format)


def _columns() -> int:
    """Those of the terminal, within reason; a file and a pipe have none."""
    if not sys.stdout.isatty():
        return USUAL_WIDTH
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)


def _can_show_blocks() -> bool:
    try:
        "█▓░·×→…◆".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _write(text: str, output: Path | None, *, is_document: bool = False) -> None:
    if output is None:
        (echo_document if is_document else echo)(text, end="")
        return
    write_file(output, text)


TOKENIZER_FILE = "tokenizer.json"


def load_encoder(path: Path) -> Encoder:
    """From a `tokenizer.json`, a folder that holds one, or a folder that transformers can read. Raises `Refused`."""
    if not path.exists():
        raise Refused(f"there is no tokenizer {path}", EXIT_UNREADABLE)
    if path.is_file():
        return _from_file(path)
    if (path / TOKENIZER_FILE).is_file():
        return _from_file(path / TOKENIZER_FILE)
    return _from_folder(path)


@dataclass(frozen=True, slots=True)
class _Counter:
    """`ids` gives the tokens of a text."""

    ids: Callable[[str], list[int]]

    def encode(self, text: str) -> list[int]:
        return self.ids(text)


def _from_file(path: Path) -> Encoder:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        raise Refused(f"{path} could not be read as a tokenizer: {error}", EXIT_UNREADABLE) from error
    return _Counter(lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids))


def _from_folder(path: Path) -> Encoder:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise Refused(
            f"{path} holds no {TOKENIZER_FILE}, and transformers cannot read it: {reason}", EXIT_UNREADABLE
        ) from error
    return _Counter(lambda text: list(tokenizer.encode(text, add_special_tokens=False)))
