"""Strategies for runs and schedules, and the execution of a plan under a schedule.

A run is one outcome that the plan allows: the choices, lengths and numbers of items. A schedule says which branches
pause in which forward pass, and how many may take part in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Final

from hypothesis import strategies as st

from pastalang.plan.branches import ROOT, Choose, Each, Hole, InputText, Instance, Place, Repeat, Text, TurnStart
from pastalang.plan.machine import GO_ON, STOP, Closing, Cursor, Draw, Feed, Opening
from pastalang.plan.plan import Plan
from pastalang.plan.run_log import Drawn, Fed, RunLog, log_of, needed
from pastalang.plan.simulate import Simulated, Simulator, simulate
from pastalang.plan.token_bounds import decision_draws, draws_of
from pastalang.plan.verify import breaches
from pastalang.program.types import AutoPolicy
from pastalang.testing.sight import name_of


@st.composite
def runs(draw: st.DrawFn, plan: Plan, *, max_items: int = 3, max_draws: int = 6) -> RunLog:
    """Runs of a plan, with at most `max_items` per list and `max_draws` drawn tokens per value, if the plan allows it.

    Half of the runs feed their prompts in chunks, and some find the start of the prompt in the prefix cache.
    """
    run = log_of(plan, RandomAnswers(draw, max_items, max_draws))
    chunk = draw(st.one_of(st.none(), st.integers(1, 9)))
    first = next(iter(run.instances[Instance(ROOT)].events), None)
    begins_with_text = isinstance(plan.branches[0].segments[0], TurnStart | Text)
    kept = draw(st.integers(0, first.tokens - 1)) if begins_with_text and isinstance(first, Fed) else 0
    return replace(run, chunk=chunk, kept=kept)


class RandomAnswers:
    """Lets Hypothesis decide, within what the plan allows."""

    def __init__(self, draw: st.DrawFn, max_items: int = 3, max_draws: int = 6) -> None:
        self._draw = draw
        self._max_items = max_items
        self._max_draws = max_draws

    def feed(self, action: Feed, cursor: Cursor) -> int:
        match action.segment:
            case Place():
                return 0
            case InputText():
                return self._draw(st.integers(0, 9))
            case Opening() | Closing():
                return self._draw(st.integers(0, 3))
            case _:
                return self._draw(st.integers(1, 4))

    def draw(self, action: Draw, cursor: Cursor) -> Drawn:
        match action.segment:
            case Hole(threads=int()) as text:
                return self._text(text)
            case Hole() as hole:
                drawn = draws_of(hole)
                return self._drawn(least=drawn.low, most=drawn.high)
            case Choose(arms=arms):
                return self._option(len(arms), self._draw(st.integers(0, len(arms) - 1)))
            case Repeat():
                may_go_on = cursor.lists[-1].item + 1 < self._max_items
                return self._option(2, GO_ON if may_go_on and self._draw(st.booleans()) else STOP)

    def elements(self, loop: Each | Repeat, cursor: Cursor) -> int:
        least = 0 if isinstance(loop, Each) else loop.minimum
        return self._draw(st.integers(least, min(loop.maximum, max(self._max_items, least))))

    def _text(self, hole: Hole) -> Drawn:
        """Threads begin and are waited for after any of the draws."""
        bounds = draws_of(hole)
        drawn = self._drawn(least=bounds.low, most=bounds.high)
        tags = self._draw(st.lists(st.tuples(st.integers(1, drawn.draws), st.integers(0, 9)), max_size=self._max_items))
        begun = tuple(sorted(tags))
        waiting = () if hole.auto is AutoPolicy.APAR else self._draw(st.sets(st.integers(1, drawn.draws), max_size=2))
        waits = tuple((number, sum(draw < number for draw, _ in begun)) for number in sorted(waiting))
        return replace(drawn, begun=begun, waits=waits)

    def _option(self, options: int, taken: int) -> Drawn:
        if options == 1:
            return Drawn((self._draw(st.integers(0, 3)),))
        draws = decision_draws(options)
        return replace(self._drawn(least=draws.low, most=draws.high), option=taken)

    def _drawn(self, *, least: int, most: int) -> Drawn:
        draws = self._draw(st.integers(least, max(least, min(most, self._max_draws))))
        left = max(most - draws, 0)
        rides = [0] * (draws + 1)
        if self._draw(st.booleans()):
            rides[self._draw(st.integers(0, draws))] = self._draw(st.integers(0, min(left, 3)))
        return Drawn(tuple(rides), dropped=draws > 0 and self._draw(st.booleans()))


_KINDS: Final = 5  # the instances of a schedule are numbered in the order in which they start, modulo this


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which branches pause in which forward pass.

    A branch counts by its number, modulo 5, in the order in which branches start: `pauses[n]` holds the numbers that
    pause in pass n. After the last entry no branch pauses, so every schedule ends. `most` limits the branches that take
    part in a pass.
    """

    pauses: tuple[frozenset[int], ...] = ()
    most: int | None = None

    @property
    def passes(self) -> Iterator[frozenset[int]]:
        return chain(self.pauses, repeat(frozenset()))


def schedules(plan: Plan | None = None) -> st.SearchStrategy[Schedule]:
    """Schedules that a runtime may choose: pauses for any branch in any pass, and limits on how many take part."""
    pausing = st.frozensets(st.integers(0, _KINDS - 1), max_size=_KINDS - 1)
    most = st.one_of(st.none(), st.integers(1, 3 if plan is None else len(plan.branches)))
    return st.builds(Schedule, st.lists(pausing, max_size=12).map(tuple), most)


def execute(plan: Plan, run: RunLog, schedule: Schedule, *, keep_views: bool = True) -> Simulated:
    """Execute a run of a plan under a schedule, to its end."""
    simulator = Simulator(plan, run, keep_views=keep_views)
    numbers: dict[Instance, int] = {}
    for pausing in schedule.passes:
        if simulator.is_over:
            break
        step(simulator, pausing, numbers, schedule.most)
    return simulator.result


def step(simulator: Simulator, pausing: frozenset[int], numbers: dict[Instance, int], most: int | None) -> None:
    """One pass. If the schedule would pause every branch, none pauses."""

    def pauses(instance: Instance) -> bool:
        return numbers.setdefault(instance, len(numbers)) % _KINDS in pausing

    moving = [instance for instance in simulator.awake if not pauses(instance)][:most]

    def schedule_filter(instance: Instance) -> bool:
        return instance in moving if most is not None else not pauses(instance)

    if not simulator.step(schedule_filter):
        assert simulator.step(), "no branch can advance, although there is a token to draw"


# ── checks ────────────────────────────────────────────────────────────────────────────────────────────


def check_plan(plan: Plan) -> None:
    """Check every rule that `plan.verify` states."""
    found = list(breaches(plan))
    assert not found, found


def check_schedule_changes_nothing(plan: Plan, run: RunLog, schedule: Schedule) -> None:
    """Check that a schedule changes neither the tokens that are drawn nor what each draw sees, and that it ends."""
    unhindered = simulate(plan, run, keep_views=True)
    scheduled = execute(plan, run, schedule)
    assert scheduled.draws == unhindered.draws, "a schedule drew more or fewer tokens"
    for (instance, draw), view in unhindered.views.items():
        where = f"token {draw + 1} of `{name_of(plan, instance)}`"
        assert scheduled.views[instance, draw] == view, f"{where} saw something else under another schedule"
    assert scheduled.passes >= unhindered.passes, "a schedule with pauses was faster than one without"


def check_cells(plan: Plan, run: RunLog, schedule: Schedule) -> None:
    """Check that no token is fed twice, and that the cells in use never exceed the tokens written."""
    most = sum(log.tokens for log in needed(plan, run).values())
    done = execute(plan, run, schedule, keep_views=False)
    assert done.peak_cells <= done.fed <= most, f"{done.peak_cells} cells at once, {done.fed} fed, {most} written"
