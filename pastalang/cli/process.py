"""How commands are made and how they end: every expected exception becomes one message and one documented exit code."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from types import FrameType
from typing import Any, TypeVar, get_type_hints

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
from pastalang.cli.output import coloured, echo, echo_document, echo_error, reason_of
from pastalang.failures import FileError, PastaError, WrongFormat
from pastalang.limits import MAX_NAME_CHARS

S = TypeVar("S")


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


def command(settings: type[S]) -> Callable[[Callable[[S], None]], Callable[..., None]]:
    """Make a command for typer of a function of settings: each field is an argument or an option.

    Every expected exception is reported and becomes `typer.Exit`.
    """

    def decorate(function: Callable[[S], None]) -> Callable[..., None]:
        def called(**options: Any) -> None:
            _end_with_code(lambda: function(settings(**options)), as_json=options.get("as_json") is True)

        hints = get_type_hints(settings, include_extras=True)
        parameters = [
            Parameter(one.name, Parameter.KEYWORD_ONLY, annotation=hints[one.name], default=_default(one))
            for one in fields(settings)  # type: ignore[arg-type]
        ]
        vars(called)["__signature__"] = Signature(parameters)
        called.__annotations__ = hints
        called.__name__, called.__doc__ = function.__name__, function.__doc__
        return called

    return decorate


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default


def _end_with_code(act: Callable[[], None], *, as_json: bool) -> None:
    import typer  # here, so that `pasta --version` need not wait for it

    try:
        refused = _refused_by(act)
        if refused is not None:
            _report(refused, as_json=as_json)
    except BrokenPipeError:
        raise typer.Exit(EXIT_CLOSED_PIPE) from None
    if refused is not None:
        raise typer.Exit(refused.code)


def _report(refused: Refused, *, as_json: bool) -> None:
    """Print the message, and with `--json` also one object on the standard output."""
    echo_error(coloured(refused.message.rstrip("\n"), sys.stderr))
    if as_json:
        try:
            echo_document(json.dumps(refused.as_data(), ensure_ascii=False))
        except Refused:
            return  # the standard output cannot be written, which may be the very problem


def _refused_by(act: Callable[[], None]) -> Refused | None:
    try:
        act()
    except Refused as refused:
        return refused
    except PastaError as problem:
        code = EXIT_USAGE if isinstance(problem, WrongFormat) else EXIT_UNREADABLE
        return refused_for(problem, code if isinstance(problem, FileError) else EXIT_PROBLEMS)
    except OSError as problem:
        if problem.filename is None:
            raise
        name = str(problem.filename)
        shown = name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"
        return Refused(f"{shown} could not be used: {reason_of(problem)}", EXIT_UNREADABLE)
    except KeyboardInterrupt:
        return STOPPED
    return None


@contextmanager
def ctrl_c_asked(
    what: str = "this step", *, is_once: bool = False, is_shown: bool = True
) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: the run then ends after what it is doing. Pressed again, it ends at once.

    With `is_once`, it does not: a launcher may pass on what its terminal has already sent.
    """
    pressed = False

    def on_ctrl_c(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed and is_once:
            return
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        if is_shown:
            advice = "" if is_once else "; press Ctrl-C again to stop at once"
            echo_error(f"\nstopping after {what}{advice}")

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody else's handler stays
        yield lambda: False
        return
    signal.signal(signal.SIGINT, on_ctrl_c)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def screen() -> tuple[Callable[[str], None], Callable[[str], None] | None]:
    """How lines are shown, and on a terminal the line that is replaced by the next one."""
    if not sys.stderr.isatty():
        return echo, None

    def live(line: str) -> None:
        echo_error(f"\r\x1b[K{line}", end="")

    def report(line: str) -> None:
        live("")
        echo(line)

    return report, live
