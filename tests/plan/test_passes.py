"""The arithmetic of passes, one rule at a time."""

from __future__ import annotations

from pastalang import Mode, Plan
from pastalang.plan.branches import Instance, Overrun
from pastalang.plan.forecast import forecast
from pastalang.plan.passes import passes_taken
from pastalang.plan.run_log import Drawn
from pastalang.plan.simulate import simulate
from pastalang.program import types as t
from tests.plan.given_runs import Chosen, Decision, Items, Outcome, Outcomes, first_pass, given_run
from tests.plan.programs import (
    async_,
    each,
    field,
    fork,
    given,
    hole,
    json_body,
    named,
    or_null,
    plan_of,
    record,
    sync,
    text,
    text_body,
    value,
)

ITEMS = ((), (0,), (1,), (2,))


def runs(plan: Plan, **outcomes: tuple[Outcome, ...] | Drawn) -> dict[Instance, Outcomes]:
    """Outcomes by the name of the branch (`_` for the root); the same for every item of a loop."""
    given = {"" if name == "_" else name.replace("__", "[]."): found for name, found in outcomes.items()}
    table = {}
    for branch in plan.branches:
        found = given.get(branch.name, ())
        for items in ITEMS:
            table[Instance(branch.id, items)] = Outcomes((found,) if isinstance(found, Drawn) else found)
    return table


def passes(plan: Plan, chunk: int | None = None, **outcomes: tuple[Outcome, ...] | Drawn) -> int:
    return passes_taken(plan, given_run(plan, runs(plan, **outcomes), chunk=chunk))


def draws(count: int) -> Drawn:
    return Drawn.plain(count)


def test_a_skeleton_takes_as_many_passes_as_its_longest_value() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c")))
    assert passes(plan, a=draws(5), b=draws(3), c=draws(8)) == 8


def test_a_field_with_after_begins_in_the_pass_that_feeds_the_last_token_it_waited_for() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c", after=("a", "b"))))
    assert passes(plan, a=draws(5), b=draws(3), c=draws(4)) == 9


def test_left_to_right_every_draw_is_a_pass() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c")), mode=Mode.SEQUENTIAL)
    assert passes(plan, _=(draws(5), draws(3), draws(8))) == 16


def test_forced_tokens_inside_a_hole_ride_along() -> None:
    plan = plan_of(json_body(field("a", group=1), field("b", group=1)))
    assert passes(plan, a=(Drawn((1, 0, 3)), Drawn((0, 7)))) == 3


def test_a_program_without_draws_takes_no_pass() -> None:
    assert passes(plan_of(text_body(text("Hello.")))) == 0


def test_text_behind_the_last_draw_is_not_fed() -> None:
    plan = plan_of(text_body(hole("a"), text(" and that is all.")))
    assert passes(plan, _=(draws(5),)) == 5


def test_a_sync_goes_on_when_the_longest_branch_is_fed() -> None:
    pieces = (
        async_("a", hole("a")),
        text("x"),
        async_("b", hole("b")),
        text("y"),
        sync("a", "b"),
        text("z"),
        hole("c"),
    )
    assert passes(plan_of(text_body(*pieces)), a=draws(5), b=draws(7), _=(draws(4),)) == 11


def test_what_the_main_text_draws_meanwhile_is_free() -> None:
    pieces = (async_("a", hole("a")), text("x"), hole("b"), text("y"), sync("a"), text("z"), hole("c"))
    assert passes(plan_of(text_body(*pieces)), a=draws(5), _=(draws(3), draws(4))) == 9
    assert passes(plan_of(text_body(*pieces)), a=draws(2), _=(draws(3), draws(4))) == 7


def test_the_details_of_a_list_run_beside_the_next_roots() -> None:
    lines = t.Array(record(field("name"), field("qty")), max_items=3)
    plan = plan_of(json_body(field("lines", lines)))
    chain = (
        Decision(True, draws(1)), draws(2), Decision(True, draws(1)), draws(2), Decision(False, draws(1)),
    )  # fmt: skip
    assert passes(plan, lines=chain, lines__qty=draws(1)) == 7
    done = simulate(plan, given_run(plan, runs(plan, lines=chain, lines__qty=draws(9))))
    qty = named(plan, "lines[].qty").id
    assert (first_pass(done, Instance(qty, (0,))), first_pass(done, Instance(qty, (1,)))) == (4, 7)
    assert done.passes == 15


def test_an_arm_that_is_not_chosen_costs_nothing() -> None:
    size = or_null(record(field("w"), field("h")))
    plan = plan_of(json_body(field("size", size), field("note", after=("size",))))
    assert passes(plan, size=(Chosen(1, draws(1)),), note=draws(4)) == 5
    chosen = passes(plan, size=(Chosen(0, draws(1)),), **{"size.w": draws(6), "size.h": draws(2), "note": draws(4)})
    assert chosen == 1 + 6 + 4


def test_outside_a_fan_out_all_its_items_are_joined() -> None:
    outline = hole("outline", t.Array(t.String(5), max_items=4))
    pieces = (
        outline,
        text("\n"),
        each("p", "outline", text("- "), hole("x")),
        text("y"),
        sync("p"),
        text("z"),
        hole("e"),
    )
    plan = plan_of(text_body(*pieces))
    table = runs(plan, _=(draws(3), Items(2), draws(1)))
    branch = named(plan, "p[]").id
    table[Instance(branch, (0,))], table[Instance(branch, (1,))] = (Outcomes((draws(2),)), Outcomes((draws(6),)))
    assert passes_taken(plan, given_run(plan, table)) == 3 + 6 + 1


def test_a_fork_in_text_is_a_chain_of_roots() -> None:
    tips = fork("tip", 1, 3, text("- "), hole("root"), text(": "), async_("detail", hole("detail")), text("\n"))
    plan = plan_of(text_body(tips))
    chain = (Decision(True, draws(0)), draws(2), Decision(True, draws(1)), draws(2), Decision(False, draws(1)))
    assert passes(plan, _=chain, tip__detail=draws(4)) == 2 + 1 + 2 + 4


def test_a_chunk_bounds_what_a_branch_is_fed_in_one_pass() -> None:
    plan = plan_of(text_body(hole("a")))
    root = Outcomes((draws(5),), forced=(1, 20, 1, 1, 9, 1, 1))
    assert passes_taken(plan, given_run(plan, {Instance(plan.branches[0].id): root}, chunk=10)) == 4 + 4
    assert passes_taken(plan, given_run(plan, {Instance(plan.branches[0].id): root}, chunk=100)) == 5


def test_in_lock_step_equal_starts_never_stall() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c")), mode=Mode.LOCKSTEP)
    assert passes(plan, a=draws(5), b=draws(3), c=draws(8)) == 8


def test_in_lock_step_a_value_waits_for_the_same_token_of_the_values_before_it() -> None:
    plan = plan_of(json_body(field("a"), field("b")), mode=Mode.LOCKSTEP)
    assert passes(plan, a=draws(4), b=Drawn((3, 0, 0))) == 5  # its fourth token waits for a's, which pass 5 feeds
    assert passes(plan, a=draws(2), b=Drawn((3, 0, 0))) == 4  # a is known to have ended after pass 2


def dropped(*rides: int) -> Drawn:
    """So many forced tokens before and behind each draw, the last of which is not fed."""
    return Drawn(rides, dropped=True)


def both(plan: Plan, table: dict[Instance, Outcomes]) -> int:
    """What the arithmetic says and what the step machine takes, which are one."""
    said, taken = passes_taken(plan, given_run(plan, table)), simulate(plan, given_run(plan, table)).passes
    assert said == taken
    return said


def test_behind_a_dropped_draw_with_nothing_fed_the_next_draw_takes_the_same_logits() -> None:
    plan = plan_of(text_body(fork("tip", 1, 3, text("- "), hole("root"))))
    on, over = Decision(True, draws(1)), Decision(False, dropped(0, 0))
    first = Decision(True, Drawn((1,)))
    assert both(plan, runs(plan, _=(first, draws(2), on, draws(2), over))) == 2 + 1 + 2 + 1
    # the end of either value is drawn and not fed: what the list decides is drawn in the same pass
    assert both(plan, runs(plan, _=(first, dropped(0, 0, 0), on, dropped(0, 0, 0), over))) == 2 + 2


def test_what_was_kept_of_a_dropped_draw_is_fed_in_the_next_pass() -> None:
    plan = plan_of(text_body(fork("tip", 1, 3, text("- "), hole("root"))))
    first, over = Decision(True, Drawn((1,))), Decision(False, dropped(0, 0))
    assert both(plan, runs(plan, _=(first, dropped(0, 0, 1), over))) == 3


def test_a_branch_forked_behind_a_dropped_draw_draws_from_the_same_logits() -> None:
    pieces = (hole("a"), value("note"), async_("aside", hole("b")), text("x"), sync("aside"), text("y"), hole("c"))
    plan = plan_of(text_body(*pieces), inputs=(given("note"),))
    texts = tuple(1 for _ in range(7))
    for note, expected in ((0, 5), (1, 6)):  # two draws of one value, three of the other, one behind them
        table = runs(plan, aside=draws(3))
        table[Instance(plan.branches[0].id)] = Outcomes((dropped(0, 0, 0), draws(1)), (*texts, note, *texts))
        start = first_pass(simulate(plan, given_run(plan, table)), Instance(named(plan, "aside").id))
        assert both(plan, table) == expected
        assert start == 2 + note


def test_a_type_of_one_value_need_not_be_drawn() -> None:
    forced = (t.Integer(1, 1), t.Regex("AB-7"), t.Verbatim("note"), t.Array(t.String(4), max_items=0), t.Literal("x"))
    free = (t.Integer(1, 9), t.String(4), t.Boolean(), t.Union((t.Literal("a"), t.Literal("b"))), t.Array(t.String(4)))
    for one, least in (*((one, 0) for one in forced), *((one, 1) for one in free)):
        assert forecast(plan_of(text_body(hole("a", one)))).passes.low == least, one


def test_a_value_that_null_may_stand_for_where_nothing_fits_need_not_be_drawn() -> None:
    short = t.Union((t.Integer(1000, 9999), t.Null()), max_tokens=2)
    assert forecast(plan_of(json_body(field("a", short)))).passes.low == 0
    assert forecast(plan_of(json_body(field("a", or_null(t.String(9)))))).passes.low == 1
    capped = text_body(async_("aside", hole("a", record(field("b", or_null(t.String(9))))), reserve=3))
    assert forecast(plan_of(capped, mode=Mode.SEQUENTIAL, overrun=Overrun.CAP)).passes.low == 0
