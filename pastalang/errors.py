"""The exceptions that PastaLang raises for callers. All of them are a `PastaError`.

Those of the layers above are here by name, and are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from pastalang.diagnostics.diagnostic import Diagnostic

if TYPE_CHECKING:
    from pastalang.hosts.errors import HostError as HostError
    from pastalang.hosts.errors import Unsupported as Unsupported
    from pastalang.plan.builder import PlanError as PlanError
    from pastalang.runtime.errors import BadInputs as BadInputs
    from pastalang.runtime.errors import BadList as BadList
    from pastalang.runtime.errors import Cancelled as Cancelled
    from pastalang.runtime.errors import DeadEnd as DeadEnd
    from pastalang.runtime.errors import LoadError as LoadError
    from pastalang.runtime.errors import NotFiniteLogits as NotFiniteLogits
    from pastalang.runtime.errors import OutOfMemory as OutOfMemory
    from pastalang.runtime.errors import RunError as RunError
    from pastalang.runtime.errors import TooLong as TooLong
    from pastalang.runtime.errors import ValidatorFailed as ValidatorFailed
    from pastalang.runtime.errors import WrongMode as WrongMode
    from pastalang.runtime.result import Invalid as Invalid
    from pastalang.runtime.result import Truncated as Truncated
    from pastalang.values.conversion import NotExpressible as NotExpressible

_ABOVE = (
    "BadInputs", "BadList", "Cancelled", "DeadEnd", "HostError", "Invalid", "LoadError", "NotExpressible",
    "NotFiniteLogits", "OutOfMemory", "PlanError", "RunError", "TooLong", "Truncated", "Unsupported", "ValidatorFailed",
    "WrongMode",
)  # fmt: skip


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


class InputError(PastaError):
    """The inputs given to a program do not fit what its template declares."""


class TruncationWarning(UserWarning):
    """Values were cut at their limits, and neither the program nor the call says what becomes of them."""


class RuntimeFailure(PastaError):
    """Decoding could not go on. The message names the place in the template."""


__all__ = [
    "FileError", "InputError", "PastaError", "ProgramError", "RuntimeFailure", "TruncationWarning", *_ABOVE,
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _ABOVE:
        raise AttributeError(f"module 'pastalang.errors' has no attribute '{name}'", name=name)
    found: object = getattr(_import_module("pastalang"), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
