"""The base of all exceptions that PastaLang raises on purpose, and those that every layer may raise.

Callers find these and all others in `pastalang.errors`.
"""

from __future__ import annotations

from typing import Any

from pastalang.diagnostics.diagnostic import Diagnostic


class PastaError(Exception):
    """The base of all exceptions that PastaLang raises on purpose. It may cross to another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[PastaError], arguments: tuple[Any, ...], state: dict[str, Any]) -> PastaError:
    """Without its constructor, which has arguments of its own: a worker whose exception cannot be read seems dead."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


class ProgramError(PastaError):
    """A program with errors. `diagnostics` holds all of them, warnings included."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__(self._summary())

    def _summary(self) -> str:
        from pastalang.diagnostics.render import render_text

        return "the program has errors\n\n" + render_text(self.diagnostics)


class FileError(PastaError):
    """A file that could not be opened."""


class WrongFormat(FileError):
    """A file of a kind that is not read, or not written."""


class InputError(PastaError):
    """The inputs given to a program do not fit what its template declares."""


class TruncationWarning(UserWarning):
    """Values were cut at their limits, and neither the program nor the call says what becomes of them."""


class RuntimeFailure(PastaError):
    """Decoding could not go on. The message names the place in the template."""


for _each in (PastaError, ProgramError, FileError, InputError, TruncationWarning, RuntimeFailure):
    _each.__module__ = "pastalang.errors"  # where callers import it from, as a traceback says
