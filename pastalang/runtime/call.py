"""The options of a call: their defaults, their types for editors, and their validation."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, Final, TypedDict, TypeVar

from pastalang.diagnostics.suggest import did_you_mean, one_of
from pastalang.plan.branches import Mode, Placement
from pastalang.plan.plan import Plan
from pastalang.program.program import Program, Template
from pastalang.program.types import ON_TRUNCATED, SAMPLING_BOUNDS, Drafts, OnTruncated, Sampling
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.windows import MergeRule
from pastalang.values.describe import counted

F = TypeVar("F", bound=Callable[..., Any])
IN_FLIGHT: Final = 16  # how many inputs of a `map` run at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `run`, `stream`, `batch` and `arun`.

    template       which template to run, if the program has several
    mode           how values of a JSON answer see one another: "strict", "lockstep", "sequential" (a plan has its own)
    placement      where values stand that do not see one another: "gaps" or "dense" (a plan has its own). None: as the
                   engine was loaded
    any_mode       decode in a mode that the weights were not trained for
    seed           two runs with the same seed draw the same tokens
    sampling       for holes and decisions for which the program sets no sampling
    model          a Pydantic model, or any type that Pydantic knows: validates the JSON answer and makes the value
    repair         how many times a field is decoded again that the model rejects (0 by default), or that does not pass
                   a check of its schema that no token can be held to (3 by default)
    retry_below    decode a field again if its probability is below this
    keep_invalid   return an answer that stays invalid with its problems, instead of raising `Invalid`
    on_truncated   "keep", "raise" or "null": what becomes of a value that its limit has cut; if None, a warning says so
    details        report for each field how much probability its type ruled out, and how likely each option was
    drafts         "auto", "off", or the most tokens that a field guesses ahead; the answer is the same. A program that
                   says it takes precedence
    """

    template: str | None = None
    mode: str | Mode = Mode.STRICT
    placement: str | Placement | None = None
    any_mode: bool = False
    seed: int = 0
    sampling: Sampling | None = None
    model: Any = None
    repair: int | None = None
    retry_below: float | None = None
    keep_invalid: bool = False
    on_truncated: OnTruncated | None = None
    details: bool = False
    drafts: Drafts | None = None


class DecodingOptions(TypedDict, total=False):
    """The options that `run` and `extract` share, for type checkers and editors. `Options` says what they mean."""

    mode: str | Mode
    placement: str | Placement | None
    any_mode: bool
    seed: int
    sampling: Sampling | None
    repair: int | None
    retry_below: float | None
    keep_invalid: bool
    on_truncated: OnTruncated | None
    drafts: Drafts | None


class RunOptions(DecodingOptions, total=False):
    """The options of `run`, except `model`."""

    template: str | None
    details: bool


class ExtractOptions(DecodingOptions, total=False):
    """The options of `extract`: those of a run, and what the model reads besides the text.

    instructions   what to do, in place of "Read the text and fill in the record."
    examples       texts with their right values, which the model sees as earlier turns
    context        texts that stand before the text: what the model should know, or more to quote from
    window         the tokens of a window, to read a text in windows and merge what is read; None reads it as a whole
    overlap        the tokens that a window shares with the one before it, at most; an eighth of a window by default
    merge          which value counts where windows give several: "confidence" (the default), "agreement" or "first"
    """

    instructions: str | None
    context: str | Sequence[str]
    examples: Sequence[tuple[str, Any]]
    window: int | None
    overlap: int | None
    merge: MergeRule | None


OPTIONS: Final = tuple(field.name for field in fields(Options))
RUN_DEFAULTS: Final[Mapping[str, object]] = MappingProxyType({field.name: field.default for field in fields(Options)})
EXTRACT_DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(
    {"instructions": None, "context": None, "examples": (), "window": None, "overlap": None, "merge": None}
    | {name: default for name, default in RUN_DEFAULTS.items() if name not in ("template", "model")}
)


def shows_options(defaults: Mapping[str, object], types: Any, *, also: str = "") -> Callable[[F], F]:
    """Decorator: `help` and notebooks list these options in place of `**options`, and `**also` for anything else."""

    def decorate(function: F) -> F:
        found = signature(function)
        own = [one for one in found.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        shown = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=_annotation(types, name))
            for name, default in defaults.items() if name not in found.parameters
        ]  # fmt: skip
        rest = [Parameter(also, Parameter.VAR_KEYWORD, annotation="Any")] if also else []
        vars(function)["__signature__"] = found.replace(parameters=[*own, *shown, *rest])
        return function

    return decorate


def _annotation(types: Any, name: str) -> object:
    found = types.__annotations__.get(name, "Any")
    return getattr(found, "__forward_arg__", found)


def options_of(given: Mapping[str, Any]) -> Options:
    """Raises `TypeError` for an unknown name, as any Python function does, and `BadInputs` with every wrong value.

    Decimal numbers of the sampling become floats.
    """
    check_names({name: value for name, value in given.items() if name not in OPTIONS}, ())
    options = Options(**given)
    problems = _problems(options)
    if problems:
        raise BadInputs("\n".join(problems))
    if options.sampling is None:
        return options
    numbers = {name: getattr(options.sampling, name) for name in SAMPLING_BOUNDS}
    floats: dict[str, Any] = {name: float(value) for name, value in numbers.items() if isinstance(value, Decimal)}
    return replace(options, sampling=replace(options.sampling, **floats))


def check_names(
    given: Mapping[str, object],
    inputs: Sequence[str],
    *,
    options: Sequence[str] = OPTIONS,
    instead: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raises `TypeError` for a keyword that is neither an input nor an option, with the right one.

    `instead` says what to write for names that other libraries use, where a call differs from `run`.
    """
    advice = {**HINTS_FOR_FOREIGN_OPTIONS, **instead}
    for name, value in given.items():
        if name in inputs:
            continue
        kind = "unknown option or input" if inputs else "unknown option"
        if name in advice:
            raise TypeError(f"{kind} `{name}`: {advice[name].format(name=name, value=_short(value))}")
        hint = did_you_mean(name, [*options, *inputs])
        if hint is None and (hint := did_you_mean(name, advice)) is not None:
            told = advice[hint].format(name=hint, value=_short(value))
            raise TypeError(f"{kind} `{name}`; did you mean `{hint}`? {told[:1].upper()}{told[1:]}")
        raise TypeError(f"{kind} `{name}`" + (f"; did you mean `{hint}`?" if hint else ""))


# Names that other libraries use, and what to write here.
_HINT_SAMPLING: Final = "write `sampling=pastalang.Sampling({name}={value})`"
_HINT_LIMIT: Final = (
    "every value has its own limit, in its type: `string(max=20)` in a program, "
    "`Annotated[str, pastalang.Tokens(20)]` in a model"
)
_HINT_MODEL: Final = "the type of the answer is `model=`"
_HINT_PROMPT: Final = "messages are part of a program; `extract` takes `instructions=`"
_HINT_LOAD: Final = "it belongs to the model: `pastalang.Engine.load(..., {name}={value})`"
HINTS_FOR_FOREIGN_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "repetition_penalty"), _HINT_SAMPLING),
        **dict.fromkeys(("max_tokens", "max_new_tokens", "max_length", "max_output_tokens"), _HINT_LIMIT),
        **dict.fromkeys(("response_model", "response_format", "output_type", "output_schema", "schema"), _HINT_MODEL),
        **dict.fromkeys(("prompt", "system", "system_prompt", "messages", "prompt_description"), _HINT_PROMPT),
        **dict.fromkeys(("device", "dtype", "cells", "limits", "prefix_cells", "packed"), _HINT_LOAD),
        **dict.fromkeys(("retries", "max_retries", "num_retries", "max_attempts"), "write `repair={value}`"),
        **dict.fromkeys(
            ("chunk_size", "chunk_tokens", "max_char_buffer"),
            "a long text is read in windows of so many tokens: `extract(..., window=800)`",
        ),
        **dict.fromkeys(("random_seed", "random_state", "rng"), "write `seed=` with a whole number"),
        "stream": "call `stream` in place of `run`, which yields events",
        "tokenizer": "it belongs to the model: `pastalang.Engine.load(model, tokenizer)`",
        "stop": 'a text that ends a value belongs to its type, as in `string(stop=".")`',
    }
)


_HINT_CALL: Final = "it belongs to a call: `engine.run(..., {name}={value})`"
_HINTS_FOR_LOAD: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(OPTIONS, _HINT_CALL),
        **dict.fromkeys(
            ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"),
            "it belongs to a call: `engine.run(..., sampling=pastalang.Sampling({name}={value}))`",
        ),
        "torch_dtype": "write `dtype={value}`",
        "device_map": 'write `device=` with the name of one device, such as `device="cuda"`',
    }
)


def check_load_names(given: Mapping[str, object], *, options: Sequence[str]) -> None:
    """Raises `TypeError` for a keyword that `Engine.load` does not have, with the right one."""
    check_names(given, (), options=options, instead=_HINTS_FOR_LOAD)


def merged_inputs(inputs: Any, named: Mapping[str, Any], plan: Plan, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs of a dict and those passed by keyword. `given` are all keywords, options included. Raises `BadInputs`.

    Anything else than a dict goes through, for `bind_inputs` to report.
    """
    if not isinstance(inputs, Mapping):
        return inputs  # type: ignore[no-any-return]
    found = {**inputs, **named}
    for name in named:
        if name in inputs:
            raise BadInputs(f"the input `{name}` is passed twice, in the dict and by keyword")
    for input in plan.inputs:
        if input.name in given and input.name in OPTIONS and input.name not in found and input.default is None:
            raise BadInputs(
                f'`{input.name}=` is an option; pass the input of this name in a dict: `{{"{input.name}": ...}}`'
            )
    return found


def _problems(options: Options) -> list[str]:
    """`repair` and its companions depend on the plan and are checked with it."""
    problems: list[str] = []
    template: object = options.template
    if template is not None and not isinstance(template, str):
        problems.append(f"`template` must be the name of a template, not {template!r}")
    if options.mode not in [*Mode, *(mode.value for mode in Mode)]:
        problems.append(f"`mode` must be {_one_of([mode.value for mode in Mode])}, not {options.mode!r}")
    problems += check_placement(options.placement)
    seed: object = options.seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        problems.append(f"`seed` must be a whole number, not {seed!r}")
    for name in ("any_mode", "keep_invalid", "details"):
        value: object = getattr(options, name)
        if not isinstance(value, bool):
            problems.append(f"`{name}` must be True or False, not {value!r}")
    problems += check_on_truncated(options.on_truncated)
    problems += check_drafts(options.drafts)
    sampling: object = options.sampling
    if sampling is None:
        return problems
    if not isinstance(sampling, Sampling):
        return [
            *problems,
            f"`sampling` must be a pastalang.Sampling, such as Sampling(temperature=0.7), not {sampling!r:.60}",
        ]
    for name, bounds in SAMPLING_BOUNDS.items():
        value = getattr(sampling, name)
        if value is not None and not bounds.accepts(value):
            problems.append(f"`{name}` must be {bounds.expected}, not {value!r}")
    return problems + check_on_truncated(sampling.on_truncated) + check_drafts(sampling.drafts)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else "..."


def check_on_truncated(given: object) -> list[str]:
    """What is wrong with it."""
    if given is None or given in ON_TRUNCATED:
        return []
    return [f"`on_truncated` must be {_one_of(ON_TRUNCATED)}, not {given!r:.60}"]


def check_placement(given: object) -> list[str]:
    """What is wrong with it."""
    if given is None or given in [*Placement, *(one.value for one in Placement)]:
        return []
    return [f"`placement` must be {_one_of([one.value for one in Placement])}, not {given!r:.60}"]


def check_drafts(given: object) -> list[str]:
    """What is wrong with it."""
    if given in (None, "auto", "off") or (isinstance(given, int) and not isinstance(given, bool) and given >= 1):
        return []
    return [f'`drafts` must be "auto", "off" or a whole number of at least 1, not {given!r:.60}']


def check_size(name: str, value: object, *, minimum: int) -> None:
    """A number that a user gives. Raises `BadInputs`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise BadInputs(f"`{name}` must be a whole number of at least {minimum}, not {value!r:.60}")


def check_in_flight(in_flight: object) -> None:
    check_size("in_flight", in_flight, minimum=1)


def check_many(inputs: object, *, can_be_async: bool = False) -> None:
    """Raises `BadInputs` unless there are inputs to go through."""
    if can_be_async and isinstance(inputs, AsyncIterable):
        return
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        raise BadInputs(f"`map` goes through many inputs, one dict for each request, not a {type(inputs).__name__}")


def check_batch(inputs: object) -> None:
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        raise BadInputs(f"a batch takes a list of inputs, one dict for each request, not a {type(inputs).__name__}")


def check_seeds(seeds: object, batch: Sized, given: Mapping[str, object]) -> None:
    """Raises `BadInputs` if a batch with these options cannot have these seeds."""
    if not isinstance(seeds, Sequence) or any(isinstance(one, bool) or not isinstance(one, int) for one in seeds):
        raise BadInputs(f"`seeds` must be a list of whole numbers, not {seeds!r:.60}")
    if len(seeds) != len(batch):
        raise BadInputs(f"`seeds` has {counted(len(seeds), 'number')}, and the batch {len(batch)} sets of inputs")
    if "seed" in given:
        raise BadInputs("`seed` is for all inputs of a batch, `seeds` has one for each: leave out one of them")


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
    return one_of([f"`{name}`" for name in names])
