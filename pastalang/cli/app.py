"""From the words of the command line to one command, whose module alone is imported."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import typer

from pastalang import __version__
from pastalang.cli.output import say


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its function is `command` in its module."""

    name: str
    module: str
    summary: str


ENTRIES = (
    Entry("check", "pastalang.cli.check", "Report every problem of programs."),
    Entry("fmt", "pastalang.cli.fmt", "Write programs in their one canonical form."),
    Entry("explain", "pastalang.cli.explain", "Say what a diagnostic code means and what to do."),
    Entry("plan", "pastalang.cli.plan", "Show what runs beside what, and what it costs."),
    Entry("run", "pastalang.cli.run", "Let a model fill in a program."),
    Entry("train", "pastalang.cli.train", "Teach a model to decode a program's values side by side."),
    Entry("evaluate", "pastalang.cli.evaluate", "Score answers against the right ones."),
    Entry("import", "pastalang.cli.import_model", "Write a program for a Pydantic model or a JSON Schema."),
)


_EXIT_CODES = (
    "Exit codes: 0 fine, 1 problems found, 2 wrong usage, 3 something could not be read or written, "
    "130 stopped by Ctrl-C, 141 nobody read the output to its end."
)


def build_app(names: set[str]) -> typer.Typer:
    """The whole command line; the modules of the commands in `names` are imported, the others only listed."""
    app = typer.Typer(
        name="pasta",
        help="Declare what a language model should write; decode what is independent at the same time.",
        epilog=_EXIT_CODES,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    app.callback()(_options)
    for entry in ENTRIES:
        function = import_module(entry.module).command if entry.name in names else _listed
        app.command(entry.name, help=entry.summary)(function)
    return app


def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        say(f"pasta {__version__}")
        raise typer.Exit


def _listed() -> None:
    """Stands in the list of commands for one that was not named, so that its module need not be imported."""
    raise AssertionError("a command that is named is imported")


def named_commands() -> set[str]:
    """The commands that the line may call: in a shell's completion, the line is in the environment."""
    words = {
        *sys.argv[1:],
        *os.environ.get("COMP_WORDS", "").split(),
        *os.environ.get("_TYPER_COMPLETE_ARGS", "").split(),
    }
    return {entry.name for entry in ENTRIES if entry.name in words}
