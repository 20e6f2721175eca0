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
from tests.plan.given_runs import Chosen, Decision, Items, Outcome, Outcomes, given_run
from tests.plan.programs import (
    async_,
    each,
    field,
    fork,
    given,
    hole,
    json_body,
    or_null,
    plan_of,
    promise,
    record,
    sync,
    text,
    text_body,
    value,
)

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
    short = (Drawn.plain(1),)
    return plan, {("", ()): (), ("a", ()): (TWO,), ("b", ()): short, ("c", ()): (Drawn.plain(3),)}


def sequential() -> tuple[Plan, Table]:
    plan = plan_of(json_body(field("a"), field("b")), mode=Mode.SEQUENTIAL)
    return plan, {("", ()): (TWO, TWO)}


def group_and_choice() -> tuple[Plan, Table]:
    size = or_null(record(field("w"), field("h", after=("w",))))
    plan = plan_of(json_body(field("a", group=1), field("b", group=1), field("size", size)))
    arm = Chosen(0, Drawn.plain(1))
    return plan, {
        ("", ()): (),
        ("a", ()): (TWO, TWO),
        ("size", ()): (arm,),
        ("size.w", ()): (TWO,),
        ("size.h", ()): (TWO,),
    }


def list_of_objects() -> tuple[Plan, Table]:
    plan = plan_of(json_body(field("rows", t.Array(record(field("x"), field("y")), max_items=2))))
    chain = (Decision(True, Drawn.plain(1)), TWO, Decision(True, Drawn.plain(1)), TWO, Decision(False, Drawn((1,))))
    return plan, {("", ()): (), ("rows", ()): chain, ("rows[].y", (0,)): (TWO,), ("rows[].y", (1,)): (TWO,)}


def promises() -> tuple[Plan, Table]:
    pieces = (promise("a", "topic", 3), text("x"), async_("b", hole("b")), text("y"), hole("main"), text("z"))
    kept = async_("a", hole("a"), promised=True)
    plan = plan_of(text_body(*pieces, kept, text("."), sync("a", "b"), text("so"), hole("end")))
    return plan, {("", ()): (TWO, TWO), ("a", ()): (TWO,), ("b", ()): (TWO,)}


def fork_tree() -> tuple[Plan, Table]:
    tips = fork("tip", 2, 2, text("- "), hole("root"), text(":"), async_("detail", hole("detail")), text("\n"))
    forced = Decision(True, Drawn((1,)))
    chain = (forced, TWO, forced, TWO, Decision(False, Drawn((0,))))
    details = {("tip[].detail", (0,)): (TWO,), ("tip[].detail", (1,)): (TWO,)}
    return plan_of(text_body(tips)), {("", ()): chain, **details}


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


def stacked() -> tuple[Plan, Table]:
    plan = plan_of(json_body(field("a")), inputs=(given("note", is_each=True),), prompt=(value("note"),))
    documents: Table = {("note[]", (0,)): (), ("note[]", (1,)): ()}
    return plan, {("", ()): (Items(2),), **documents, ("a", (0,)): (TWO,), ("a", (1,)): (Drawn.plain(3),)}


PROGRAMS = (
    strict, lockstep, sequential, group_and_choice, list_of_objects, promises, fork_tree, fan_out, stacked
)  # fmt: skip


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
