"""From `with (temperature=0.7)` to how tokens are drawn."""

from __future__ import annotations

from pastalang.check.arguments import Arguments, read_arguments
from pastalang.check.report import Report
from pastalang.grammar import nodes
from pastalang.program.sampling_bounds import SAMPLING_BOUNDS
from pastalang.program.types import Sampling

OPTIONS = tuple(SAMPLING_BOUNDS)
IN_THE_TYPE = {
    "max": "`max` is a limit of the type: `string(max=40)`",
    "max_tokens": "the limit of tokens belongs to the type: `string(max=40)`",
    "stop": '`stop` belongs to the type: `string(stop=":")`',
    "seed": "the seed belongs to the run, not to the program: `pasta run --seed 7`",
}


def check_sampling(arguments: tuple[nodes.Argument, ...], report: Report) -> Sampling:
    given = read_arguments(arguments, owner="with", allowed=OPTIONS, report=report, hints=IN_THE_TYPE)
    top_k = SAMPLING_BOUNDS["top_k"]
    return Sampling(
        temperature=_number(given, "temperature"),
        top_k=given.integer("top_k", minimum=top_k.low, maximum=top_k.high),
        top_p=_number(given, "top_p"),
        min_p=_number(given, "min_p"),
        repetition_penalty=_number(given, "repetition_penalty"),
    )


def _number(given: Arguments, name: str) -> float | None:
    value = given.number(name, accept=SAMPLING_BOUNDS[name].accepts, expected=SAMPLING_BOUNDS[name].expected)
    return None if value is None else float(value)
