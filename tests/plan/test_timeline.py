"""The timeline of a drawing: the same arithmetic as the runtime's, at the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from pastalang import Mode, Plan, build_plan, load
from pastalang.plan.branches import BranchId
from pastalang.plan.draw.timeline import Bar, Joined, Lane, Timeline, build_timeline, busiest
from pastalang.plan.forecast import forecast
from pastalang.plan.simulate import simulate
from tests.plan import samples
from tests.plan.slowest import slowest_run

EXAMPLES = Path(__file__).parents[2] / "examples"
BY_HAND = {
    "product": samples.product(),
    "travel": samples.travel(),
    "tips": samples.tips(),
    "documents": samples.stacked(),
}


def lane(timeline: Timeline, name: str) -> Lane:
    return next(lane for lane in timeline.lanes if lane.branch.name == name)


def bar(timeline: Timeline, field: str) -> Bar:
    return next(bar for bar in timeline.bars if bar.hole.field == field)


def test_the_values_of_a_skeleton_all_start_at_once() -> None:
    timeline = build_timeline(samples.wide(5))
    assert {bar.start for bar in timeline.bars} == {0}
    assert timeline.passes == max(bar.hole.max_tokens for bar in timeline.bars)


def test_the_same_skeleton_left_to_right_takes_the_sum_of_its_limits() -> None:
    timeline = build_timeline(samples.wide(5, mode=Mode.SEQUENTIAL))
    assert timeline.passes == sum(bar.hole.max_tokens for bar in timeline.bars)
    assert busiest(forecast(timeline.plan).longest) == 1


def test_a_join_waits_for_the_slowest_of_what_it_names() -> None:
    timeline = build_timeline(samples.travel())
    wait = next(event for event in lane(timeline, "").events if isinstance(event, Joined))
    assert (wait.start, wait.at) == (40, 130)
    assert bar(timeline, "summary").start == 130


def test_the_longest_path_goes_through_the_slowest_branch() -> None:
    timeline = build_timeline(samples.travel())
    assert timeline.critical == ("opening", "food", "summary")
    assert not bar(timeline, "sights").critical


def test_a_field_after_others_starts_when_the_last_of_them_ends() -> None:
    timeline = build_timeline(samples.product())
    assert bar(timeline, "headline").start == 12 == bar(timeline, "brand").end


def test_a_choice_takes_one_pass_before_what_is_chosen() -> None:
    assert bar(build_timeline(samples.product()), "size.width").start == 1


def test_an_item_of_a_list_is_one_choice_and_its_root_later_than_the_item_before() -> None:
    timeline = build_timeline(samples.product())
    (loop,) = lane(timeline, "ports[].count").copies
    assert (loop.minimum, loop.maximum, loop.period, loop.last) == (0, 4, 7, 21)
    assert lane(timeline, "ports[].count").last_end == 11 + 21


def test_items_that_must_be_there_need_no_choice() -> None:
    """Seven roots of 12 tokens; four of the seven items are a choice."""
    assert lane(build_timeline(samples.tips()), "").end == 7 * 12 + 4


def test_a_wave_is_everything_that_waits_for_equally_many_values() -> None:
    assert {bar.hole.field: bar.wave for bar in build_timeline(samples.product()).bars} == {
        "brand": 1, "screen_size": 1, "sku": 1, "kind": 1, "size.width": 1, "size.unit": 1,
        "ports[].name": 1, "ports[].count": 2, "headline": 2,
    }  # fmt: skip


def test_a_stacked_document_is_counted_once() -> None:
    assert busiest(forecast(samples.stacked()).longest) == 2


def test_every_branch_stands_directly_below_its_family() -> None:
    lanes = [lane.branch for lane in build_timeline(samples.product()).lanes]
    for index, branch in enumerate(lanes[1:], start=1):
        above = {each.id for each in lanes[:index]}
        assert branch.parent in above
    assert lanes[0].id == BranchId(0)


def passes_of_the_slowest_run(plan: Plan) -> int:
    return max(simulate(plan, slowest_run(plan, arm=arm)).passes for arm in range(4))


@pytest.mark.parametrize("plan", BY_HAND.values(), ids=BY_HAND.keys())
def test_the_slowest_run_of_a_plan_takes_as_many_passes_as_are_drawn(plan: Plan) -> None:
    assert build_timeline(plan).passes == passes_of_the_slowest_run(plan)


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.SEQUENTIAL])
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.pasta")), ids=lambda path: path.stem)
def test_the_slowest_run_of_an_example_takes_as_many_passes_as_are_drawn(path: Path, mode: Mode) -> None:
    program = load(path)
    for template in program.templates.values():
        plan = build_plan(template, program, mode=mode)
        assert build_timeline(plan).passes == passes_of_the_slowest_run(plan)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.pasta")), ids=lambda path: path.stem)
def test_a_drawing_ends_where_the_forecast_says(path: Path, mode: Mode) -> None:
    program = load(path)
    for template in program.templates.values():
        plan = build_plan(template, program, mode=mode)
        assert build_timeline(plan).passes == forecast(plan).passes.high
