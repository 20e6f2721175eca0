"""What a command cannot do, as an exception: what is said to the user, and the exit code."""

from __future__ import annotations

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
