"""The exceptions that PastaLang raises for callers. All of them are a `PastaError`.

A list for callers, which no module of PastaLang imports. Those of the layers are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from pastalang.failures import FileError as FileError
from pastalang.failures import InputError as InputError
from pastalang.failures import PastaError as PastaError
from pastalang.failures import ProgramError as ProgramError
from pastalang.failures import RuntimeFailure as RuntimeFailure
from pastalang.failures import TruncationWarning as TruncationWarning

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
