"""What a forecast says before anything runs."""

from __future__ import annotations

import pytest

from pastalang import Mode
from pastalang.plan.branches import Overrun
from pastalang.plan.forecast import Capacity, DoesNotFit, fit, forecast
from pastalang.plan.token_bounds import Lengths, Range
from pastalang.program import types as t
from tests.plan.programs import async_, field, fork, hole, json_body, or_null, plan_of, record, sync, text, text_body


class Words:
    """A tokenizer that makes one token of every four characters."""

    def encode(self, text: str) -> list[int]:
        return [0] * -(-len(text) // 4)


WORDS = Lengths(encoder=Words())


def test_the_longest_run_of_a_skeleton_takes_as_many_passes_as_its_largest_limit() -> None:
    found = forecast(plan_of(json_body(field("a", t.String(12)), field("b", t.String(30)), field("c", t.String(7)))))
    assert found.passes == Range(1, 30)
    assert found.draws == Range(3, 49)
    assert found.speed_up == pytest.approx(49 / 30)


def test_left_to_right_nothing_is_saved() -> None:
    found = forecast(plan_of(json_body(field("a", t.String(12)), field("b", t.String(30))), mode=Mode.SEQUENTIAL))
    assert found.passes == Range(2, 42)
    assert found.speed_up == 1.0


def test_a_list_takes_a_round_per_item_and_a_decision_where_it_has_one() -> None:
    rows = t.Array(record(field("x", t.String(3)), field("y", t.String(9))), min_items=1, max_items=4)
    found = forecast(plan_of(json_body(field("rows", rows))))
    assert found.passes.high == 4 * 3 + 3 + 9  # four roots, three decisions, and the last detail
    assert found.longest.passes == found.passes.high


def test_an_arm_that_need_not_be_chosen_costs_nothing_at_least() -> None:
    found = forecast(plan_of(json_body(field("size", or_null(record(field("w", t.String(9))))))))
    assert found.passes == Range(1, 10)


def test_a_sync_waits_for_the_longer_one() -> None:
    pieces = (async_("a", hole("x", t.String(20)), reserve=20), text("b"), sync("a"), text("c"), hole("y", t.String(5)))
    assert forecast(plan_of(text_body(*pieces))).passes == Range(2, 25)


def test_with_a_tokenizer_literal_text_is_exact() -> None:
    plan = plan_of(json_body(field("a", t.String(5))))
    found = forecast(plan, WORDS)
    turns = 5 * 4  # three begin and two end, four tokens each
    texts = 3 + 1 + 3 + 1  # "Be brief.", "Go.", '{\n  "a": ', "\n}"
    assert found.is_exact
    assert found.cells == Range(turns + texts + 1, turns + texts + 5)
    assert not forecast(plan).is_exact


def test_what_is_known_about_the_data_counts() -> None:
    plan = plan_of(json_body(field("a", t.String(5))))
    assert forecast(plan, Lengths(turn_tokens=10)).cells.low > forecast(plan).cells.low


def test_positions_include_the_gaps_and_memory_does_not() -> None:
    found = forecast(plan_of(json_body(*[field(f"f{n}", t.String(100)) for n in range(5)])), WORDS)
    assert found.highest_position.high > 500
    assert found.shortest.peak_cells < 100
    assert [gap.positions for gap in found.gaps] == [100] * 5


def test_memory_given_back_early_is_not_needed_twice() -> None:
    tips = fork(
        "tip", 9, 9, text("- "), hole("root", t.String(2)), async_("detail", hole("more", t.String(5))), text("\n")
    )
    found = forecast(plan_of(text_body(tips)), WORDS)
    assert found.longest.peak_cells < found.longest.fed


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Capacity(positions=400), r"needs \d+ positions, and there are 400: .* f0 \(100\), f1 \(100\), f2 \(100\)"),
        (Capacity(cells=10), r"needs \d+ cells, and there are 10"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_to_change(limits: Capacity, says: str) -> None:
    plan = plan_of(json_body(*[field(f"f{n}", t.String(100)) for n in range(5)]))
    with pytest.raises(DoesNotFit, match=says):
        fit(plan, limits, WORDS)


def test_what_fits_is_let_through_with_its_forecast() -> None:
    assert fit(plan_of(json_body(field("a"))), Capacity(positions=2000, cells=2000)).passes.high == 8


def test_a_list_in_a_branch_counts_in_every_round_of_the_lists_around_it() -> None:
    inner = fork("three", 3, 3, text("* "), hole("x", t.String(5)), text("\n"))
    two = fork("two", 2, 2, text("+ "), async_("aside", text("so "), inner), text("."), sync("aside"), text("then\n"))
    found = forecast(plan_of(text_body(fork("one", 2, 2, text("- "), two, text("\n")), hole("last", t.String(3)))))
    assert found.passes.high == found.longest.passes == 2 * 2 * 3 * 5 + 3


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
