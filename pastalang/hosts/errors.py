"""What can go wrong between this machine and a server."""

from __future__ import annotations

from pastalang.errors import PastaError
from pastalang.runtime.errors import RunError


class HostError(RunError):
    """A server that cannot be reached, does not answer in time, or answers what it should not."""

    code = "host"


class Unsupported(PastaError):
    """A program asks for something that this kind of server cannot do. The message names servers that can."""
