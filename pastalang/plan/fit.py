"""Whether a plan fits a model, before anything is decoded: what it needs against what there is."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.plan.forecast import ANY, Forecast, Gap, forecast
from pastalang.plan.plan import Plan
from pastalang.plan.token_bounds import Lengths


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of a model and its pool; None where there is no limit."""

    positions: int | None = None
    cells: int | None = None


class DoesNotFit(ValueError):
    """`needed` of `available` positions or cells; `gaps` are the ones that cost most, the largest first."""

    def __init__(self, what: str, needed: int, available: int, *, gaps: tuple[Gap, ...], help: str) -> None:
        super().__init__(f"this plan needs {needed:,} {what}, and there are {available:,}: {help}")
        self.what = what
        self.needed = needed
        self.available = available
        self.gaps = gaps
        self.help = help


def fit(plan: Plan, limits: Capacity, lengths: Lengths = ANY) -> Forecast:
    """Raise `DoesNotFit` if the longest run leaves the model's positions, or if even the shortest exceeds the pool.

    A pool that only longer runs exceed is no reason to refuse: branches can be held back until others have given
    their cells back. Gives the forecast that it was decided by.
    """
    found = forecast(plan, lengths)
    needed = found.highest_position.high + 1
    if limits.positions is not None and needed > limits.positions:
        raise DoesNotFit("positions", needed, limits.positions, gaps=found.gaps[:3], help=_shorter(found))
    if limits.cells is not None and found.cells_at_least > limits.cells:
        help = "shorten the prompt, or give the pool more cells"
        raise DoesNotFit("cells", found.cells_at_least, limits.cells, gaps=found.gaps[:3], help=help)
    return found


def _shorter(found: Forecast) -> str:
    if not found.gaps:
        return "shorten the prompt"
    named = ", ".join(f"{gap.name} ({gap.positions:,})" for gap in found.gaps[:3])
    return f"lower the limits of the fields whose gaps cost most: {named}"
