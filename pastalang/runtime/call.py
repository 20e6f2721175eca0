"""The options of a call: their defaults, their types for editors, and their validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from pydantic import BaseModel

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.plan.plan import Mode
from pastalang.program.program import Program, Template
from pastalang.program.sampling import BOUNDS
from pastalang.program.types import Sampling
from pastalang.runtime.errors import BadInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `run`, `stream`, `batch` and `arun`, which are the same for all four.

    template       which template, where the program has several
    mode           how the values of a JSON answer relate to one another; a plan has its own
    any_mode       decode also in a mode that the weights were not trained for
    seed           two runs with one seed draw the same tokens
    sampling       for holes and decisions that the program leaves open
    model          a Pydantic model that the JSON answer has to satisfy; the value is then an instance of it
    repair         how often a field that the model objects to is decoded again
    retry_below    a field that is less probable than this is decoded again, too
    keep_invalid   what is wrong in the end is marked, where `Invalid` would be raised
    details        each field also says how much probability its type has ruled out, and how likely each option was
    """

    template: str | None = None
    mode: str | Mode = Mode.STRICT
    any_mode: bool = False
    seed: int = 0
    sampling: Sampling | None = None
    model: type[BaseModel] | None = None
    repair: int = 0
    retry_below: float | None = None
    keep_invalid: bool = False
    details: bool = False


class RunOptions(TypedDict, total=False):
    """The same names for type checkers and editors; what they mean stands at `Options`."""

    template: str | None
    mode: str | Mode
    any_mode: bool
    seed: int
    sampling: Sampling | None
    model: type[BaseModel] | None
    repair: int
    retry_below: float | None
    keep_invalid: bool
    details: bool


def options_of(given: RunOptions) -> Options:
    """Raises `TypeError` for a name that is no option, as Python does for any other function, and `BadInputs` with
    all that is wrong with the values."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise TypeError(f"there is no option {name!r}" + (f"; did you mean {hint!r}?" if hint else ""))
    told: Any = given
    options = Options(**told)
    problems = _problems(options)
    if problems:
        raise BadInputs("\n".join(problems))
    return options


def _problems(options: Options) -> list[str]:
    """What `repair` and its companions may be depends on the plan, and is told with it."""
    problems: list[str] = []
    template: object = options.template
    if template is not None and not isinstance(template, str):
        problems.append(f"`template` is the name of a template, not {template!r}")
    if options.mode not in [*Mode, *(mode.value for mode in Mode)]:
        problems.append(f"`mode` is {_one_of([mode.value for mode in Mode])}, not {options.mode!r}")
    seed: object = options.seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        problems.append(f"`seed` is a whole number, not {seed!r}")
    for name in ("any_mode", "keep_invalid", "details"):
        value: object = getattr(options, name)
        if not isinstance(value, bool):
            problems.append(f"`{name}` is True or False, not {value!r}")
    sampling: object = options.sampling
    if sampling is None:
        return problems
    if not isinstance(sampling, Sampling):
        return [*problems, f"`sampling` is a pastalang.Sampling, not {sampling!r}"]
    for name, bounds in BOUNDS.items():
        value = getattr(sampling, name)
        if value is not None and not bounds.accepts(value):
            problems.append(f"`{name}` is {bounds.expected}, not {value!r}")
    return problems


def template_of(program: Program, name: str | None) -> Template:
    """The template of that name; without a name the only one there is. Raises `BadInputs`."""
    templates = program.templates
    if name is None and len(templates) != 1:
        raise BadInputs(
            f"the program has {len(templates)} templates; say which: `template` is {_one_of(list(templates))}"
        )
    if name is not None and name not in templates:
        hint = did_you_mean(name, list(templates))
        raise BadInputs(
            f"there is no template `{name}`; "
            + (f"did you mean `{hint}`?" if hint else f"there is {_one_of(list(templates))}")
        )
    return program.only_template if name is None else templates[name]


def _one_of(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " or ".join([*([", ".join(quoted[:-1])] if quoted[1:] else []), *quoted[-1:]])
