"""The step simulator: memory, chunks, and what a caller may do with it."""

from __future__ import annotations

from pastalang import Plan
from pastalang.plan.branches import Instance
from pastalang.plan.run_log import Drawn, RunLog
from pastalang.plan.simulate import Simulator, simulate
from tests.plan.given_runs import Outcomes, given_run
from tests.plan.programs import async_, field, hole, json_body, named, plan_of, sync, text, text_body


def table_of(plan: Plan, **draws: int) -> dict[Instance, Outcomes]:
    """Values of so many draws by branch; every text has one token."""
    table = {Instance(plan.branches[0].id): Outcomes()}
    for name, count in draws.items():
        table[Instance(named(plan, name).id)] = Outcomes((Drawn.plain(count),))
    return table


def run(plan: Plan, **draws: int) -> RunLog:
    return given_run(plan, table_of(plan, **draws))


def test_a_value_that_nobody_reads_is_forgotten_at_its_end() -> None:
    plan = plan_of(json_body(field("short"), field("long")))
    found = simulate(plan, run(plan, short=3, long=8))
    # The last token of either is not fed: 9 texts up to the last key, and 2 + 7 tokens, of which 2 are gone by then.
    assert (found.fed, found.peak_cells) == (9 + 2 + 7, 9 + 7)


def test_a_value_that_is_waited_for_stays_until_its_reader_has_ended() -> None:
    plan = plan_of(json_body(field("read"), field("reader", after=("read",))))
    found = simulate(plan, run(plan, read=3, reader=8))
    assert found.peak_cells == found.fed == 9 + 3 + 1 + 7


def test_with_its_reader_gone_it_is_forgotten() -> None:
    plan = plan_of(json_body(field("read"), field("reader", after=("read",)), field("long")))
    found = simulate(plan, run(plan, read=2, reader=2, long=40))
    assert found.fed - found.peak_cells == 2 + 1 + 1  # the value, and the key and token of its reader


def test_a_step_in_which_nobody_may_move_is_none() -> None:
    plan = plan_of(json_body(field("a")))
    simulator = Simulator(plan, run(plan, a=3))
    assert simulator.step(lambda instance: False) == 0
    assert simulator.result.passes == 0
    while not simulator.is_over:
        simulator.step()
    assert simulator.result.passes == 3


def test_attended_tokens_are_counted_at_every_draw() -> None:
    plan = plan_of(json_body(field("a")))
    found = simulate(plan, run(plan, a=3))
    prompt = 8  # turns and texts up to the key
    assert found.attended == prompt + (prompt + 1) + (prompt + 2)


def test_a_sync_goes_on_behind_the_highest_position() -> None:
    pieces = (async_("aside", hole("x"), reserve=2), text("y"), sync("aside"), text("z"), hole("end"))
    plan = plan_of(text_body(*pieces))
    table = table_of(plan, aside=7)
    found = simulate(plan, given_run(plan, {**table, Instance(plan.branches[0].id): Outcomes((Drawn.plain(1),))}))
    aside = found.starts[Instance(named(plan, "aside").id)]
    assert found.highest_position == aside + 7  # the last token of the aside is at `aside + 6`, `z` behind it
