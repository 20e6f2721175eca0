"""PastaLang: declare what a language model should write, and decode its independent parts at the same time.

    class Television(BaseModel):
        brand: str | None
        inches: int | None

    print(pastalang.extract(Television, "Sharp 42 inch TV"))  # brand='Sharp' inches=42

    engine = pastalang.Engine.load("pasta-mini")
    result = engine.run("coffee.pasta", title="Norvika Coffee, Dark Roast, 12 oz")
    print(result.value["Brand"], result.usage.forward_passes)  # Norvika 5

The first is one call, from a type; the second runs a program, that of README.

Names are imported when they are first used, so `import pastalang` costs nothing.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from pastalang.version import __version__ as __version__

if _TYPE_CHECKING:
    from pastalang import errors as errors
    from pastalang.bulk.many import aextract_many as aextract_many
    from pastalang.bulk.many import extract_many as extract_many
    from pastalang.compiler import check_path as check_path
    from pastalang.compiler import check_source as check_source
    from pastalang.compiler import compile as compile
    from pastalang.compiler import load as load
    from pastalang.diagnostics.diagnostic import Diagnostic as Diagnostic
    from pastalang.extraction import aextract as aextract
    from pastalang.extraction import astream_model as astream_model
    from pastalang.extraction import extract as extract
    from pastalang.extraction import stream_model as stream_model
    from pastalang.failures import FileError as FileError
    from pastalang.failures import InputError as InputError
    from pastalang.failures import PastaError as PastaError
    from pastalang.failures import ProgramError as ProgramError
    from pastalang.failures import RuntimeFailure as RuntimeFailure
    from pastalang.failures import TruncationWarning as TruncationWarning
    from pastalang.hosts.engine import RemoteEngine as RemoteEngine
    from pastalang.hosts.errors import HostError as HostError
    from pastalang.hosts.errors import Unsupported as Unsupported
    from pastalang.hosts.opening import connect as connect
    from pastalang.interop import from_model as from_model
    from pastalang.interop import from_outlines as from_outlines
    from pastalang.interop import from_schema as from_schema
    from pastalang.interop import model_of as model_of
    from pastalang.interop import schema_of as schema_of
    from pastalang.plan.branches import Mode as Mode
    from pastalang.plan.build import build_plan as build_plan
    from pastalang.plan.builder import PlanError as PlanError
    from pastalang.plan.plan import Plan as Plan
    from pastalang.program.program import Program as Program
    from pastalang.program.types import Sampling as Sampling
    from pastalang.runtime.answer_parts import FieldResult as FieldResult
    from pastalang.runtime.answer_parts import Truncation as Truncation
    from pastalang.runtime.engine import Engine as Engine
    from pastalang.runtime.errors import BadInputs as BadInputs
    from pastalang.runtime.errors import BadList as BadList
    from pastalang.runtime.errors import Cancelled as Cancelled
    from pastalang.runtime.errors import DeadEnd as DeadEnd
    from pastalang.runtime.errors import LoadError as LoadError
    from pastalang.runtime.errors import NotFiniteLogits as NotFiniteLogits
    from pastalang.runtime.errors import OutOfMemory as OutOfMemory
    from pastalang.runtime.errors import Problem as Problem
    from pastalang.runtime.errors import RunError as RunError
    from pastalang.runtime.errors import TooLong as TooLong
    from pastalang.runtime.errors import ValidatorFailed as ValidatorFailed
    from pastalang.runtime.errors import WrongMode as WrongMode
    from pastalang.runtime.events import Done as Done
    from pastalang.runtime.events import Event as Event
    from pastalang.runtime.events import Failed as Failed
    from pastalang.runtime.events import FieldAgain as FieldAgain
    from pastalang.runtime.events import FieldDone as FieldDone
    from pastalang.runtime.events import FieldStarted as FieldStarted
    from pastalang.runtime.events import Joined as Joined
    from pastalang.runtime.events import TextDelta as TextDelta
    from pastalang.runtime.partial_model import Partial as Partial
    from pastalang.runtime.result import Answer as Answer
    from pastalang.runtime.result import Extraction as Extraction
    from pastalang.runtime.result import Invalid as Invalid
    from pastalang.runtime.result import Result as Result
    from pastalang.runtime.result import Truncated as Truncated
    from pastalang.runtime.result import Usage as Usage
    from pastalang.runtime.scheduler.step_budget import Limits as Limits
    from pastalang.runtime.trace import Trace as Trace
    from pastalang.values.conversion import NotExpressible as NotExpressible
    from pastalang.values.pydantic.annotations import After as After
    from pastalang.values.pydantic.annotations import Sequential as Sequential
    from pastalang.values.pydantic.annotations import Tokens as Tokens
    from pastalang.values.pydantic.annotations import Verbatim as Verbatim

_NAMES = {
    "pastalang.bulk.many": "aextract_many extract_many",
    "pastalang.compiler": "check_path check_source compile load",
    "pastalang.diagnostics.diagnostic": "Diagnostic",
    "pastalang.extraction": "aextract astream_model extract stream_model",
    "pastalang.failures": "FileError InputError PastaError ProgramError RuntimeFailure TruncationWarning",
    "pastalang.hosts.engine": "RemoteEngine",
    "pastalang.hosts.errors": "HostError Unsupported",
    "pastalang.hosts.opening": "connect",
    "pastalang.interop": "from_model from_outlines from_schema model_of schema_of",
    "pastalang.plan.branches": "Mode",
    "pastalang.plan.build": "build_plan",
    "pastalang.plan.builder": "PlanError",
    "pastalang.plan.plan": "Plan",
    "pastalang.program.program": "Program",
    "pastalang.program.types": "Sampling",
    "pastalang.runtime.answer_parts": "FieldResult Truncation",
    "pastalang.runtime.engine": "Engine",
    "pastalang.runtime.errors": "BadInputs BadList Cancelled DeadEnd LoadError NotFiniteLogits "
    "OutOfMemory Problem RunError TooLong ValidatorFailed WrongMode",
    "pastalang.runtime.events": "Done Event Failed FieldAgain FieldDone FieldStarted Joined TextDelta",
    "pastalang.runtime.partial_model": "Partial",
    "pastalang.runtime.result": "Answer Extraction Invalid Result Truncated Usage",
    "pastalang.runtime.scheduler.step_budget": "Limits",
    "pastalang.runtime.trace": "Trace",
    "pastalang.values.conversion": "NotExpressible",
    "pastalang.values.pydantic.annotations": "After Sequential Tokens Verbatim",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name == "errors":
        return _import_module("pastalang.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pastalang' has no attribute '{name}'", name=name)
    found: object = getattr(_import_module(home), name)
    globals()[name] = found
    return found


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext pastalang` calls: gives IPython and notebooks the cell magic `%%pasta`."""
    _import_module("pastalang.notebook").load(shell)


def __dir__() -> list[str]:
    """The public names: neither modules that have been imported, nor what this one is made with."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
