"""What `pasta train` can train, which options are for which method, and what none of them takes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from pastalang.cli.exit_codes import EXIT_USAGE, Refused
from pastalang.cli.standard_input import is_standard_input
from pastalang.program.program import AutoBody, Template
from pastalang.training.settings import TrainingMode


class MethodName(StrEnum):
    HPD = "hpd"
    PASTA = "pasta"
    APAR = "apar"
    BONBON = "bonbon"
    PPD = "ppd"
    SPACE = "space"


RATES = {MethodName.BONBON: 1e-5, MethodName.PPD: 1e-2}  # of others 0.0001
_THREADS = (MethodName.PASTA, MethodName.APAR)
_FINE_TUNED = (MethodName.HPD, *_THREADS, MethodName.SPACE)
_PROBES = (MethodName.PPD, MethodName.SPACE)
_ONLY_FOR = {
    "mode": (MethodName.HPD, *_PROBES),
    "overrun": (*_FINE_TUNED, MethodName.BONBON),
    "samples": (MethodName.BONBON, MethodName.PPD),
    "log": (*_FINE_TUNED, MethodName.PPD),
    "length": (*_FINE_TUNED, MethodName.PPD),
    "distances": _PROBES,
    **dict.fromkeys(("plain", "cuts"), (MethodName.SPACE,)),
    **dict.fromkeys(
        ("quality", "score", "judge", "baseline", "reference", "rounds", "sampled", "margin", "alpha", "form"),
        (MethodName.BONBON,),
    ),
    **dict.fromkeys(("ensemble", "temperature"), (MethodName.PPD,)),
    **dict.fromkeys(
        (
            "precision", "checkpointing", "accumulation", "lora", "lora_alpha", "lora_dropout", "lora_targets",
            "keep_adapter",
        ),
        (*_FINE_TUNED, MethodName.BONBON),
    ),
    **dict.fromkeys(
        (
            "validation", "hold_out", "epochs", "judge_every", "patience", "load_in_4bit", "attention", "workers",
            "check", "skip_bad",
        ),
        _FINE_TUNED,
    ),
}  # fmt: skip


def refuse_method(method: MethodName, template: Template) -> None:
    """Raises `Refused` if the template does not decode as the method teaches."""
    body = template.messages[-1].body
    policy = body.policy.value if isinstance(body, AutoBody) else None
    if method is MethodName.HPD and policy is not None:
        raise Refused(
            f"`{template.name}` lets the model open threads with auto({policy}): use `pasta train {policy}`", EXIT_USAGE
        )
    if method is MethodName.BONBON and policy is None:
        raise Refused(f"`{template.name}` is not one text of auto(...): bonbon is for answers with threads", EXIT_USAGE)
    if method is MethodName.BONBON and template.messages[-1].thought is not None:
        raise Refused(
            f"`{template.name}` thinks before its answer: bonbon is for answers without a thought", EXIT_USAGE
        )
    if method in _THREADS and policy != method.value:
        instead = f"has auto({policy})" if policy else "is not one text of auto(...)"
        other = f"use `pasta train {policy}`" if policy else "for values without threads use `pasta train hpd`"
        advice = f"write `assistant auto({method.value}, max=400)`, or {other}"
        raise Refused(f"`{template.name}` {instead}: {advice}", EXIT_USAGE)


def refuse_mode(method: MethodName, template: Template, mode: TrainingMode, *, is_chosen: bool) -> None:
    """Raises `Refused` for a mode in which nothing is foretold."""
    if method not in _PROBES:
        return
    if mode is TrainingMode.LOCKSTEP or (mode is TrainingMode.MIXTURE and method is MethodName.PPD):
        taken = "strict or sequential" if method is MethodName.PPD else "strict, sequential or mixture"
        why = f"it takes {taken}, and values in lock-step are never guessed"
        raise Refused(f"--mode {mode.value} is not for {method.value}: {why}", EXIT_USAGE)
    if is_chosen and method is MethodName.SPACE and isinstance(template.messages[-1].body, AutoBody):
        raise Refused(f"`{template.name}` has auto(...), which is decoded in one way: leave out --mode", EXIT_USAGE)


def refuse_processes(method: MethodName, *files: Path | None) -> None:
    """Raises `Refused` for what only one process can do."""
    if method in (MethodName.BONBON, MethodName.PPD):
        raise Refused(f"{method.value} trains in one process: start it without a launcher", EXIT_USAGE)
    if any(map(is_standard_input, files)):
        raise Refused("several processes cannot read one standard input: name a file in place of `-`", EXIT_USAGE)


def refuse_options_of_others(context: typer.Context, method: MethodName) -> None:
    """Raises `Refused` for an option that the method would not heed."""
    for option, methods in _ONLY_FOR.items():
        if method not in methods and is_typed(context, option):
            *names, last = (one.value for one in methods)
            known = f"{', '.join(names)} and {last}" if names else last
            raise Refused(f"--{option.replace('_', '-')} is for {known}, not for {method.value}", EXIT_USAGE)


def is_typed(context: typer.Context, option: str) -> bool:
    """Whether an option stands on the command line, not in a file of options."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"
