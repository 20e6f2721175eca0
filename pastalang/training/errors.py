"""What can be wrong with the data of a training run, as one exception that says in which file and row."""

from __future__ import annotations

from pastalang.errors import FileError, PastaError


class BadRow(PastaError):
    """A row that cannot be trained on. `origin` is its file and line, where they are known."""

    def __init__(self, reason: str, *, origin: str = "") -> None:
        self.reason = reason
        self.origin = origin
        super().__init__(f"{origin}: {reason}" if origin else reason)

    def at(self, origin: str) -> BadRow:
        """The same, told of a row with this origin."""
        return BadRow(self.reason, origin=origin)


class BadData(PastaError):
    """A whole file, folder or setting that cannot be used."""


class UnreadableData(BadData, FileError):
    """A file that cannot be opened, or that holds no text."""
