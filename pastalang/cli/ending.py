"""How every command ends: what stopped it comes in, one sentence and one documented exit code go out."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

from pastalang.cli.exit_codes import EXIT_CLOSED_PIPE, EXIT_PROBLEMS, EXIT_UNREADABLE, STOPPED, Refused, refused_for
from pastalang.cli.output import reason_of, say_document, tell
from pastalang.errors import FileError, PastaError
from pastalang.limits import MAX_NAME_CHARS


def ending(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, for typer, which ends by `typer.Exit` whatever happens that may happen."""

    @wraps(command)
    def ended(**options: Any) -> None:
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
