"""The base of all exceptions that PastaLang raises on purpose, and those that every layer may raise.

Callers find these and all others in `pastalang.errors`.
"""

from __future__ import annotations

from pastalang.diagnostics.diagnostic import Diagnostic


class PastaError(Exception):
    """The base of all exceptions that PastaLang raises on purpose."""


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
