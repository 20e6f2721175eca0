"""For small programs, every way in which the branches can take turns: each draw sees the same in all of them.

A step lets any non-empty set of those who can move take part. The schedules are enumerated, not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from pastalang import Mode, Plan
from pastalang.plan.branches import Instance
from pastalang.plan.run_log import Drawn, RunLog
from pastalang.plan.simulate import Simulated, Simulator, simulate
from pastalang.program import types as t
from tests.plan.given_runs import Items, Outcome, Outcomes, given_run
from tests.plan.programs import each, field, hole, json_body, plan_of, sync, text, text_body

MOST = 400  # schedules of one program
TWO = Drawn.plain(2)
Table = dict[tuple[str, tuple[int, ...]], tuple[Outcome, ...]]


def run_of(plan: Plan, table: Table) -> RunLog:
    """By the names of branches and their items; all texts have one token."""
    ids = {branch.name: branch.id for branch in plan.branches}
    return given_run(
        plan, {Instance(ids[name], items): Outcomes(found, (1,) * 40) for (name, items), found in table.items()}
    )


def executions(plan: Plan, run: RunLog) -> Iterator[Simulated]:
    """Depth first; a schedule is the sets that took part so far, and is played again from its start."""
    waiting: list[tuple[frozenset[Instance], ...]] = [()]
    found = 0
    while waiting and found < MOST:
        schedule = waiting.pop()
        simulator = Simulator(plan, run, keep_views=True)
        if not all(simulator.step(moving.__contains__) for moving in schedule):
            continue  # nobody of that set could move: not a step
        if simulator.is_over:
            found += 1
            yield simulator.result
        else:
            waiting.extend((*schedule, moving) for moving in _sets(simulator.awake))


def _sets(awake: tuple[Instance, ...]) -> Iterator[frozenset[Instance]]:
    for size in range(1, len(awake) + 1):
        yield from (frozenset(chosen) for chosen in combinations(awake, size))


def strict() -> tuple[Plan, Table]:
    plan = plan_of(json_body(field("a"), field("b"), field("c", after=("a",))))
    return plan, {("", ()): (), ("a", ()): (TWO,), ("b", ()): (TWO,), ("c", ()): (TWO,)}


def lockstep() -> tuple[Plan, Table]:
    plan = plan_of(json_body(field("a"), field("b"), field("c")), mode=Mode.LOCKSTEP)
    forced = (Drawn((3, 0, 0)),)  # its fourth token waits until it is known that a has ended
    return plan, {("", ()): (), ("a", ()): (TWO,), ("b", ()): forced, ("c", ()): (Drawn.plain(1),)}


def fan_out() -> tuple[Plan, Table]:
    outline = hole("outline", t.Array(t.String(4), max_items=3))
    pieces = (
        outline,
        text("\n"),
        each("p", "outline", text("- "), hole("x")),
        text("y"),
        sync("p"),
        text("z"),
        hole("e"),
    )
    items = {("p[]", (0,)): (TWO,), ("p[]", (1,)): (Drawn.plain(3),)}
    return plan_of(text_body(*pieces)), {("", ()): (TWO, Items(2), TWO), **items}


PROGRAMS = (strict, lockstep, fan_out)


@pytest.mark.parametrize("build", PROGRAMS)
def test_every_interleaving_shows_every_draw_the_same(build: object) -> None:
    plan, table = build()  # type: ignore[operator]
    run = run_of(plan, table)
    free = simulate(plan, run, keep_views=True)
    count = 0
    for result in executions(plan, run):
        count += 1
        assert result.views == free.views
        assert result.passes >= free.passes
        assert result.highest_position == free.highest_position
    assert count >= (1 if len(plan.branches) == 1 else 10)
