"""From `with (temperature=0.7)` to how tokens are drawn."""

from __future__ import annotations

from decimal import Decimal

from pastalang.check.arguments import Arguments, read_arguments
from pastalang.check.report import Report
from pastalang.grammar import nodes
from pastalang.program.types import Sampling

OPTIONS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
IN_THE_TYPE = {
    "max": "`max` is a limit of the type: `string(max=40)`",
    "max_tokens": "the limit of tokens belongs to the type: `string(max=40)`",
    "stop": '`stop` belongs to the type: `string(stop=":")`',
    "seed": "the seed belongs to the run, not to the program: `pasta run --seed 7`",
}


def check_sampling(arguments: tuple[nodes.Argument, ...], report: Report) -> Sampling:
    given = read_arguments(arguments, owner="with", allowed=OPTIONS, report=report, hints=IN_THE_TYPE)
    return Sampling(
        temperature=_number(given, "temperature", low=Decimal(0), high=Decimal(100), expected="a number from 0 to 100"),
        top_k=given.integer("top_k", minimum=1, maximum=1_000_000),
        top_p=_number(given, "top_p", above=Decimal(0), high=Decimal(1), expected="a number above 0 and up to 1"),
        min_p=_number(given, "min_p", low=Decimal(0), high=Decimal(1), expected="a number from 0 to 1"),
        repetition_penalty=_number(
            given, "repetition_penalty", above=Decimal(0), high=Decimal(100), expected="a number above 0 and up to 100"
        ),
    )


def _number(
    given: Arguments,
    name: str,
    *,
    high: Decimal,
    expected: str,
    low: Decimal | None = None,
    above: Decimal | None = None,
) -> float | None:
    def accept(value: Decimal) -> bool:
        return value <= high and (low is None or value >= low) and (above is None or value > above)

    value = given.number(name, accept=accept, expected=expected)
    return None if value is None else float(value)
