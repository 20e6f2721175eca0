"""What a command cannot do, as an exception: what is said to the user, and the exit code."""

from __future__ import annotations


class Refused(Exception):
    """`message` is whole sentences or a rendered diagnostic; `code` is one of the exit codes."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
