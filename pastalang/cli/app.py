"""The command line: the list of commands. Only the module of the command that is called is imported."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from pastalang.cli.output import echo
from pastalang.version import __version__


@dataclass(frozen=True, slots=True)
class Entry:
    """A command. `module` has its function: that of `plan` is `plan_command`."""

    name: str
    module: str
    summary: str
    example: str = ""


ENTRIES = (
    Entry("check", "pastalang.cli.programs", "Report every problem in programs.", "check product.pasta"),
    Entry("fmt", "pastalang.cli.programs", "Format programs in their one canonical form.", "fmt --check programs/"),
    Entry("explain", "pastalang.cli.explain", "Explain a diagnostic code and how to fix it.", "explain unknown-name"),
    Entry("plan", "pastalang.cli.plan", "Show what is decoded at the same time, and its cost.", "plan product.pasta"),
    Entry("run", "pastalang.cli.run", "Run a program with a model.", 'run coffee.pasta -i title="Norvika Coffee"'),
    Entry(
        "extract", "pastalang.cli.extract", "Extract rows from many documents; a run can be resumed.",
        "extract shop:Coffee titles.jsonl -o coffees.jsonl",
    ),
    Entry(
        "try", "pastalang.cli.try_model", "Show how well a model does on a few labelled rows.",
        "try mail:Ticket labelled.jsonl --model smollm2",
    ),
    Entry("serve", "pastalang.cli.serve", "Serve a model over HTTP to OpenAI clients.", "serve smollm2"),
    Entry("lsp", "pastalang.cli.programs", "Answer editors about programs, as a language server."),
    Entry(
        "report", "pastalang.cli.extract", "Show the rows of a bulk run as one HTML page.",
        "report coffees.jsonl titles.jsonl",
    ),
    Entry("models", "pastalang.cli.models", "List the models on this machine and the default model."),
    Entry(
        "label", "pastalang.cli.training_rows", "Write training rows from the answers of a model or a function.",
        "label ticket.pasta tickets.csv -o rows.jsonl --min-confidence 0.5",
    ),
    Entry("data", "pastalang.cli.training_rows", "Add threads to training rows that have none."),
    Entry(
        "train", "pastalang.cli.train", "Fine-tune a model to decode values or threads in parallel.",
        "train hpd --model pasta-mini --program ticket.pasta --data tickets.csv --out trained",
    ),
    Entry(
        "evaluate", "pastalang.cli.evaluate", "Score answers against the right ones.",
        "evaluate --program ticket.pasta --data tickets.csv --model trained",
    ),
    Entry(
        "independence", "pastalang.cli.training_rows", "Show what fields lose by not seeing one another.",
        "independence price.pasta --data offers.jsonl",
    ),
    Entry(
        "import", "pastalang.cli.programs", "Write a program for a Pydantic model or a JSON Schema.",
        "import shop:Coffee -o coffee.pasta",
    ),
)  # fmt: skip


_KINDS: Final = {str: "TEXT", Path: "PATH", int: "N", float: "X"}
_NAMES: Final = {
    "model": "MODEL", "adapter": "NAME", "template": "NAME", "name": "NAME", "device": "DEVICE", "api_key": "KEY",
    "host": "ADDRESS", "id": "COLUMN", "text": "COLUMN", "baseline": "MODEL", "lora_targets": "NAMES",
}  # fmt: skip


_INPUT: Final = re.compile("Input should be (.*?)(, unable to parse .*)?")  # of Pydantic, which Typer asks


class Command(TyperCommand):
    """A command whose help shows in capitals what an option takes, and that names the value that is wrong."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        hints = get_type_hints(inspect.unwrap(self.callback)) if self.callback is not None else {}
        for option in self.params:
            if option.param_type_name == "option" and getattr(option, "metavar", None) is None:
                option.metavar = _metavar(str(option.name), hints.get(str(option.name)))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as problem:
            if problem.__cause__ is not None and hasattr(problem.__cause__, "errors"):
                problem.message = _in_words(problem.__cause__.errors()[0])
            raise


def _in_words(first: Mapping[str, Any]) -> str:
    """The first error of a `ValidationError`."""
    found = _INPUT.fullmatch(first["msg"])
    return f"{first['input']!r} should be {found[1]}" if found else first["msg"].removeprefix("Value error, ")


def _metavar(name: str, hint: Any) -> str | None:
    """None for flags and for options that list what they take."""
    while get_origin(hint) in (Union, UnionType, list):
        hint = next(each for each in get_args(hint) if each is not type(None))
    return _NAMES.get(name, _KINDS[hint]) if hint in _KINDS else None


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
        epilog = f"Example: pasta {entry.example}" if entry.example else None
        app.command(entry.name, help=entry.summary, epilog=epilog, cls=Command)(function)
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
