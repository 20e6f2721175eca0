"""The exit codes, the exception that carries one, and Ctrl-C while modules are being imported.

This module is imported before all others, so that Ctrl-C works while they are imported. It imports nothing heavy.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

EXIT_FINE: Final = 0
EXIT_PROBLEMS: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREADABLE: Final = 3
EXIT_STOPPED: Final = 130  # the code that shells give a command stopped by Ctrl-C
EXIT_CLOSED_PIPE: Final = 141  # and one whose reader has closed the pipe

_WORDS: Final = {EXIT_PROBLEMS: "problems", EXIT_USAGE: "usage", EXIT_UNREADABLE: "unreadable", EXIT_STOPPED: "stopped"}


class Refused(Exception):
    """A command cannot go on. `message` is a sentence or a rendered diagnostic, and `code` is the exit code.

    `word` names the problem for other programs. `field` and `line` say where it is, if that is known.
    """

    def __init__(
        self, message: str, code: int, *, word: str | None = None, field: str | None = None, line: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.word = word or _WORDS[code]
        self.field = field
        self.line = line

    def as_data(self) -> dict[str, Any]:
        """The object that a command with `--json` prints."""
        return {"error": {"code": self.word, "message": self.message, "field": self.field, "line": self.line}}


def refused_for(problem: Exception, code: int = EXIT_PROBLEMS) -> Refused:
    """The refusal for an error of the library, with its `code`, `field` and `line` if it has them."""
    word, field, line = (getattr(problem, name, None) for name in ("code", "field", "line"))
    return Refused(str(problem), code, word=word, field=field or None, line=line)


STOPPED = Refused("stopped", EXIT_STOPPED)


@contextmanager
def ctrl_c_exits_at_once() -> Iterator[None]:
    """End the process on Ctrl-C without an exception: an import that is interrupted fails with errors of any kind.

    A handler for Ctrl-C that somebody else has installed stays.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: FrameType | None) -> None:
    exit_at_once(STOPPED.message)


def exit_at_once(message: str) -> None:
    from json import dumps

    with suppress(OSError):
        os.write(2, message.encode() + b"\n")
    with suppress(OSError):
        if "--json" in sys.argv:
            os.write(1, dumps(STOPPED.as_data()).encode() + b"\n")
    os._exit(EXIT_STOPPED)
