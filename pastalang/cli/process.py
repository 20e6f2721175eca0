"""How commands and the process end: every exception becomes one sentence and one documented exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from pastalang.cli.exit_codes import (
    EXIT_CLOSED_PIPE,
    EXIT_FINE,
    EXIT_PROBLEMS,
    EXIT_UNREADABLE,
    EXIT_USAGE,
    STOPPED,
    Refused,
    refused_for,
)
from pastalang.cli.output import reason_of, say_document, tell
from pastalang.errors import FileError, PastaError
from pastalang.limits import MAX_NAME_CHARS


def exit_code_of(act: Callable[[], object]) -> int:
    """The exit code of whatever prints, parses the command line or runs a command."""
    try:
        return _code_of(act)
    except BrokenPipeError:
        return EXIT_CLOSED_PIPE
    except Refused as refused:
        tell(refused.message)
        return refused.code
    except KeyboardInterrupt:
        tell(STOPPED.message)
        return STOPPED.code


def _code_of(act: Callable[[], object]) -> int:
    try:
        act()
    except SystemExit as left:
        return _code_left(left)
    return EXIT_FINE


def _code_left(left: SystemExit) -> int:
    """typer leaves after it has told wrong usage, or where nobody reads its help."""
    if isinstance(left.__context__, BrokenPipeError):
        raise left.__context__
    told = getattr(left.__context__, "format_message", None)
    if told is not None and "--json" in sys.argv:
        say_document(json.dumps(Refused(told(), EXIT_USAGE).as_data(), ensure_ascii=False))
    if left.code is None or isinstance(left.code, int):
        return left.code or EXIT_FINE
    tell(str(left.code))  # as Python does with whatever else somebody leaves with
    return EXIT_PROBLEMS


def exits_with_code(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, for typer, which ends by `typer.Exit` whatever happens that may happen."""

    @wraps(command)
    def ended(**options: Any) -> None:
        import typer  # here, so that `pasta --version` need not wait for it

        try:
            refused = _refused_by(command, options)
            if refused is not None:
                report(refused, as_json=options.get("as_json") is True)
        except BrokenPipeError:
            raise typer.Exit(EXIT_CLOSED_PIPE) from None
        if refused is not None:
            raise typer.Exit(refused.code)

    return ended


def report(refused: Refused, *, as_json: bool) -> None:
    """The sentence, and with `--json` one object on the standard output."""
    tell(refused.message.rstrip("\n"))
    if as_json:
        try:
            say_document(json.dumps(refused.as_data(), ensure_ascii=False))
        except Refused:
            return  # it is the standard output that cannot be written


def _refused_by(command: Callable[..., None], options: dict[str, Any]) -> Refused | None:
    try:
        command(**options)
    except Refused as refused:
        return refused
    except PastaError as problem:
        return refused_for(problem, EXIT_UNREADABLE if isinstance(problem, FileError) else EXIT_PROBLEMS)
    except OSError as problem:
        if problem.filename is None:
            raise
        name = str(problem.filename)
        shown = name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"
        return Refused(f"{shown} could not be used: {reason_of(problem)}", EXIT_UNREADABLE)
    except KeyboardInterrupt:
        return STOPPED
    return None
