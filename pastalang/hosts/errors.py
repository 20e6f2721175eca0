"""What can go wrong between this machine and a server."""

from __future__ import annotations

from pastalang.errors import PastaError


class HostError(PastaError):
    """A server that cannot be reached, does not answer in time, or answers what it should not."""


class Unsupported(PastaError):
    """A program asks for something that this kind of server cannot do. The message names servers that can."""
