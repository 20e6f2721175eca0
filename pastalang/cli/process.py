"""How commands and the process end: every expected exception becomes one message and one documented exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from pastalang.cli.colour import coloured
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
from pastalang.cli.output import echo_document, echo_error, reason_of
from pastalang.errors import FileError, PastaError
from pastalang.limits import MAX_NAME_CHARS


def exit_code_of(act: Callable[[], object]) -> int:
    """Run the whole command line, or a part of it that prints, and return the exit code of the process."""
    try:
        return _code_of(act)
    except BrokenPipeError:
        return EXIT_CLOSED_PIPE
    except Refused as refused:
        echo_error(refused.message)
        return refused.code
    except KeyboardInterrupt:
        echo_error(STOPPED.message)
        return STOPPED.code


def _code_of(act: Callable[[], object]) -> int:
    try:
        act()
    except SystemExit as left:
        return _code_left(left)
    return EXIT_FINE


def _code_left(left: SystemExit) -> int:
    """typer raises `SystemExit` after it has printed a usage error, or when the reader of its help has gone."""
    if isinstance(left.__context__, BrokenPipeError):
        raise left.__context__
    usage_error = getattr(left.__context__, "format_message", None)
    if usage_error is not None and "--json" in sys.argv:
        echo_document(json.dumps(Refused(usage_error(), EXIT_USAGE).as_data(), ensure_ascii=False))
    if left.code is None or isinstance(left.code, int):
        return left.code or EXIT_FINE
    echo_error(str(left.code))  # as Python does with an exit code that is not a number
    return EXIT_PROBLEMS


def exits_with_code(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command for typer, so that every expected exception is reported and becomes `typer.Exit`."""

    @wraps(command)
    def wrapped(**options: Any) -> None:
        import typer  # here, so that `pasta --version` need not wait for it

        try:
            refused = _refused_by(command, options)
            if refused is not None:
                _report(refused, as_json=options.get("as_json") is True)
        except BrokenPipeError:
            raise typer.Exit(EXIT_CLOSED_PIPE) from None
        if refused is not None:
            raise typer.Exit(refused.code)

    return wrapped


def _report(refused: Refused, *, as_json: bool) -> None:
    """Print the message, and with `--json` also one object on the standard output."""
    echo_error(coloured(refused.message.rstrip("\n"), sys.stderr))
    if as_json:
        try:
            echo_document(json.dumps(refused.as_data(), ensure_ascii=False))
        except Refused:
            return  # the standard output cannot be written, which may be the very problem


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
