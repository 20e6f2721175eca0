"""The options of a call: their defaults, their types for editors, and their validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from pydantic import BaseModel

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.plan.plan import Mode
from pastalang.program.program import Program, Template
from pastalang.program.sampling_bounds import SAMPLING_BOUNDS
from pastalang.program.types import Sampling
from pastalang.runtime.errors import BadInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `run`, `stream`, `batch` and `arun`.

    template       which template to run, if the program has several
    mode           how values of a JSON answer see one another: "strict", "lockstep", "sequential" (a plan has its own)
    any_mode       decode in a mode that the weights were not trained for
    seed           two runs with the same seed draw the same tokens
    sampling       for holes and decisions for which the program sets no sampling
    model          a Pydantic model that validates the JSON answer; the value is then an instance of it
    repair         how many times a field that the model rejects is decoded again
    retry_below    decode a field again if its probability is below this
    keep_invalid   return an answer that stays invalid with its problems, instead of raising `Invalid`
    details        report for each field how much probability its type ruled out, and how likely each option was
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
    """The same names for type checkers and editors. `Options` says what they mean."""

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
    """Raises `TypeError` for an unknown name, as any Python function does, and `BadInputs` with every wrong value."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise TypeError(f"unknown option {name!r}" + (f"; did you mean {hint!r}?" if hint else ""))
    values: Any = given
    options = Options(**values)
    problems = _problems(options)
    if problems:
        raise BadInputs("\n".join(problems))
    return options


def _problems(options: Options) -> list[str]:
    """`repair` and its companions depend on the plan and are checked with it."""
    problems: list[str] = []
    template: object = options.template
    if template is not None and not isinstance(template, str):
        problems.append(f"`template` must be the name of a template, not {template!r}")
    if options.mode not in [*Mode, *(mode.value for mode in Mode)]:
        problems.append(f"`mode` must be {_one_of([mode.value for mode in Mode])}, not {options.mode!r}")
    seed: object = options.seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        problems.append(f"`seed` must be a whole number, not {seed!r}")
    for name in ("any_mode", "keep_invalid", "details"):
        value: object = getattr(options, name)
        if not isinstance(value, bool):
            problems.append(f"`{name}` must be True or False, not {value!r}")
    sampling: object = options.sampling
    if sampling is None:
        return problems
    if not isinstance(sampling, Sampling):
        return [*problems, f"`sampling` must be a pastalang.Sampling, not {sampling!r}"]
    for name, bounds in SAMPLING_BOUNDS.items():
        value = getattr(sampling, name)
        if value is not None and not bounds.accepts(value):
            problems.append(f"`{name}` must be {bounds.expected}, not {value!r}")
    return problems


def check_size(name: str, value: object, *, minimum: int) -> None:
    """A number of cells given by a user. Raises `BadInputs`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise BadInputs(f"`{name}` must be a whole number of at least {minimum}, not {value!r}")


def check_batch(inputs: object) -> None:
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        raise BadInputs(f"a batch takes a list of inputs, one dict for each request, not a {type(inputs).__name__}")


def template_of(program: Program, name: str | None) -> Template:
    """The template of that name, or the only one if there is no name. Raises `BadInputs`."""
    templates = program.templates
    if name is None and len(templates) != 1:
        raise BadInputs(
            f"the program has {len(templates)} templates; choose one: `template` must be {_one_of(list(templates))}"
        )
    if name is not None and name not in templates:
        hint = did_you_mean(name, list(templates))
        raise BadInputs(
            f"the program has no template `{name}`; "
            + (f"did you mean `{hint}`?" if hint else f"it has {_one_of(list(templates))}")
        )
    return program.only_template if name is None else templates[name]


def _one_of(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " or ".join([*([", ".join(quoted[:-1])] if quoted[1:] else []), *quoted[-1:]])
