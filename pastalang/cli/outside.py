"""What is around all commands: how typer ends, and streams that break while it writes, become an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pastalang.cli.exit_codes import EXIT_CLOSED_PIPE, EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, STOPPED, Refused
from pastalang.cli.output import say_document, tell


def run_outside(act: Callable[[], object]) -> int:
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
