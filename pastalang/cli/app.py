"""The command line: the list of commands. Only the module of the command that is called is imported."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import typer

from pastalang import __version__
from pastalang.cli.output import echo


@dataclass(frozen=True, slots=True)
class Entry:
    """A command. `module` has its function: that of `plan` is `plan_command`."""

    name: str
    module: str
    summary: str


ENTRIES = (
    Entry("check", "pastalang.cli.programs", "Report every problem in programs."),
    Entry("fmt", "pastalang.cli.programs", "Format programs in their one canonical form."),
    Entry("explain", "pastalang.cli.explain", "Explain a diagnostic code, and how to fix the problem."),
    Entry("plan", "pastalang.cli.plan", "Show what is decoded at the same time, and what it costs."),
    Entry("run", "pastalang.cli.run", "Run a program with a model."),
    Entry("extract", "pastalang.cli.extract", "Extract rows from many documents; a run can be resumed."),
    Entry("try", "pastalang.cli.try_model", "Show how a model does on a few labelled rows."),
    Entry("serve", "pastalang.cli.serve", "Serve a model over HTTP, for clients of OpenAI."),
    Entry("lsp", "pastalang.cli.lsp", "Answer editors about programs, as a language server."),
    Entry("report", "pastalang.cli.extract", "Show the rows of a bulk run as one HTML page."),
    Entry("models", "pastalang.cli.models", "List the models of this machine and its default one."),
    Entry("label", "pastalang.cli.training_rows", "Write training rows from a model's own answers."),
    Entry("data", "pastalang.cli.training_rows", "Write training rows with threads from rows without."),
    Entry("train", "pastalang.cli.train", "Fine-tune a model to decode values or threads in parallel."),
    Entry("evaluate", "pastalang.cli.evaluate", "Score answers against the right ones."),
    Entry("independence", "pastalang.cli.training_rows", "Show what fields lose by not seeing one another."),
    Entry("import", "pastalang.cli.programs", "Write a program for a Pydantic model or a JSON Schema."),
)


_EXIT_CODES = (
    "Exit codes: 0 success; 1 problems were found; 2 wrong usage; 3 a file or a model could not be read or written; "
    "130 stopped by Ctrl-C; 141 the reader of the output closed it."
)


def build_app(names: set[str]) -> typer.Typer:
    """The whole command line. The commands in `names` can be called; the others are only listed, to start faster."""
    app = typer.Typer(
        name="pasta",
        help="Declare what a language model should write, and decode independent parts at the same time.",
        epilog=_EXIT_CODES,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    app.callback()(_options)
    for entry in ENTRIES:
        function = getattr(import_module(entry.module), f"{entry.name}_command") if entry.name in names else _listed
        app.command(entry.name, help=entry.summary)(function)
    return app


def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        echo(f"pasta {__version__}")
        raise typer.Exit


def _listed() -> None:
    raise AssertionError("the module of a command that is called must be imported")


def named_commands() -> set[str]:
    """The commands that the command line may call. During shell completion, the line is in the environment."""
    words = {
        *sys.argv[1:],
        *os.environ.get("COMP_WORDS", "").split(),
        *os.environ.get("_TYPER_COMPLETE_ARGS", "").split(),
    }
    return {entry.name for entry in ENTRIES if entry.name in words}
