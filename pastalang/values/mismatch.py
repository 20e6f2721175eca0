"""A part of a value that does not fit its type: its path and the reason."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.values.paths import path_text


@dataclass(frozen=True, slots=True)
class Mismatch:
    """`path` leads from the whole value to the part that does not fit: `("lines", 2, "total")`."""

    path: tuple[str | int, ...]
    reason: str

    @property
    def where(self) -> str:
        """The path as people write it, `lines[2].total`; empty for the whole value."""
        return path_text(self.path)

    def below(self, step: str | int) -> Mismatch:
        """The same mismatch, with a path that begins one level further out."""
        return Mismatch((step, *self.path), self.reason)

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.path else self.reason
