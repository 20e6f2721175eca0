"""Exit codes, the exception that carries one, and Ctrl-C while nothing has to be put away.

Imported before anything else, so that Ctrl-C works while the rest is imported: it imports nothing heavy itself.
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
EXIT_STOPPED: Final = 130  # what shells say of a command that Ctrl-C stopped
EXIT_CLOSED_PIPE: Final = 141  # and of one whose reader has gone

_WORDS: Final = {EXIT_PROBLEMS: "problems", EXIT_USAGE: "usage", EXIT_UNREADABLE: "unreadable", EXIT_STOPPED: "stopped"}


class Refused(Exception):
    """`message` is whole sentences or a rendered diagnostic; `code` is one of the exit codes.

    `word` says for programs what is wrong; `field` and `line` say where, if that is known.
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
        """What is printed with `--json`."""
        return {"error": {"code": self.word, "message": self.message, "field": self.field, "line": self.line}}


def refused_for(problem: Exception, code: int = EXIT_PROBLEMS) -> Refused:
    """The same problem of the library, with its word and its place where it has them."""
    word, field, line = (getattr(problem, name, None) for name in ("code", "field", "line"))
    return Refused(str(problem), code, word=word, field=field or None, line=line)


STOPPED = Refused("stopped", EXIT_STOPPED)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Inside it Ctrl-C raises nothing: an import that is broken off anywhere turns into errors of every kind.

    Whoever has an answer of their own to Ctrl-C, or ignores it, keeps it.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    from json import dumps

    with suppress(OSError):
        os.write(2, STOPPED.message.encode() + b"\n")
    with suppress(OSError):
        if "--json" in sys.argv:
            os.write(1, dumps(STOPPED.as_data()).encode() + b"\n")
    os._exit(EXIT_STOPPED)
