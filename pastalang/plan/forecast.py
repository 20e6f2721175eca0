"""What a plan will cost before anything runs, and whether it fits a model.

Ranges are bounds for every run. The figures of `typical` runs come from simulating the shortest and the longest
run that the limits allow, with lists of at most `most_items` items.
"""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.plan.branches import ROOT, BranchId, Hole, PlanData, Release
from pastalang.plan.dependencies import passes_of
from pastalang.plan.positions import thread_rooms
from pastalang.plan.run_bounds import longest_run, shortest_run, totals_of
from pastalang.plan.run_log import RunLog, needed
from pastalang.plan.simulate import Simulated, simulate
from pastalang.plan.structure import walk_plan
from pastalang.plan.token_bounds import Lengths, Range
from pastalang.program.types import AutoPolicy

ANY = Lengths()


@dataclass(frozen=True, slots=True)
class Gap:
    """Positions that the parent leaves free for a branch (for one instance of it)."""

    branch: BranchId
    name: str
    positions: int


@dataclass(frozen=True)
class Forecast:
    passes: Range  # L*: forward passes, the first of which is the prefill
    draws: Range  # sampled tokens: the passes of the same plan in sequential mode
    answer: Range  # tokens of the answer: what plain decoding takes, keys and punctuation included
    cells: Range  # written in all; no schedule needs more at one time than the high end
    cells_at_least: int  # no schedule does with less: what is seen until the answer is complete
    gaps: tuple[Gap, ...]  # the largest first
    shortest: Simulated
    longest: Simulated
    is_exact: bool  # whether literal text was counted by a tokenizer
    thread_rooms: int = 0  # positions that threads of `auto(...)` may reserve together

    @property
    def speed_up(self) -> float:
        """Passes of the same plan left to right for each of its own, with everything as long as it may be."""
        return self.draws.high / max(1, self.passes.high)

    @property
    def peak_cells(self) -> Range:
        """At one time, with memory given back as early as the plan allows, of the two simulated runs."""
        return Range(*sorted((self.shortest.peak_cells, self.longest.peak_cells)))

    @property
    def highest_position(self) -> Range:
        low, high = sorted((self.shortest.highest_position, self.longest.highest_position))
        return Range(low, high)


def forecast(plan: PlanData, lengths: Lengths = ANY, *, most_items: int = 16) -> Forecast:
    totals = totals_of(plan, lengths)
    shortest = shortest_run(plan, lengths, most_items=most_items)
    return Forecast(
        passes=passes_of(plan, lengths),
        draws=totals.draws,
        answer=totals.answer,
        cells=totals.written,
        cells_at_least=_cells_at_least(plan, shortest),
        gaps=costliest_gaps(plan),
        shortest=simulate(plan, shortest),
        longest=simulate(plan, longest_run(plan, lengths, most_items=most_items)),
        is_exact=lengths.encoder is not None,
        thread_rooms=rooms_of_threads(plan),
    )


def rooms_of_threads(plan: PlanData) -> int:
    """The most positions that texts leave for promised threads, those in the gaps of the plan left out."""
    texts = [
        segment
        for branch, _, segment in walk_plan(plan)
        if isinstance(segment, Hole) and segment.threads is not None and not branch.reserve
    ]
    return sum(thread_rooms(text.max_tokens) for text in texts if text.auto is AutoPolicy.PASTA)


def costliest_gaps(plan: PlanData) -> tuple[Gap, ...]:
    gaps = [
        Gap(branch.id, branch.name, branch.reserve) for branch in plan.branches if branch.id != ROOT and branch.reserve
    ]
    return tuple(sorted(gaps, key=lambda gap: (-gap.positions, gap.branch)))


def _cells_at_least(plan: PlanData, shortest: RunLog) -> int:
    """The root keeps its cells to the end, and so do all branches that it joins."""
    kept = {branch.id for branch in plan.branches if branch.release is Release.NEVER}
    return sum(log.tokens for instance, log in needed(plan, shortest).items() if instance.branch in kept)


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


def fit(plan: PlanData, limits: Capacity, lengths: Lengths = ANY) -> Forecast:
    """Raise `DoesNotFit` if the longest run leaves the model's positions, or if even the shortest exceeds the pool.

    A pool that only longer runs exceed is not a reason to refuse: branches can wait until others have given their
    cells back. Returns the forecast that the decision is based on.
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
    if found.thread_rooms:
        return f"lower the `max` of the text: its threads may reserve {found.thread_rooms:,}"
    if not found.gaps:
        return "shorten the prompt"
    named = ", ".join(f"{gap.name} ({gap.positions:,})" for gap in found.gaps[:3])
    return f"lower the limits of the fields whose gaps cost most: {named}"
