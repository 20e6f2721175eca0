"""What can go wrong between this machine and a server."""

from __future__ import annotations

from typing import Any

from pastalang.failures import PastaError
from pastalang.runtime.errors import RunError


class HostError(RunError):
    """A server that cannot be reached, does not answer in time, or answers what it should not."""

    code = "host"


class ServerLost(HostError):
    """Nothing answers any more, or every request is refused: all that would be asked next fails, too.

    `status` is that of the answer which refuses; 0 if there was none.
    """

    def __init__(self, message: str, *, status: int = 0, **place: Any) -> None:
        super().__init__(message, **place)
        self.status = status


class Unsupported(PastaError):
    """A program asks for something that this kind of server cannot do. The message names servers that can."""
