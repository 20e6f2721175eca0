"""The SVG: well-formed whatever the names are, the same bytes each time, and no two labels on top of each other."""

from __future__ import annotations

import cProfile
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from pastalang import Mode, Plan
from pastalang.plan.draw.position_strip import lay_strip, position_stretches
from pastalang.plan.draw.svg import LANES, WIDTH, draw_svg, lay_out
from pastalang.plan.draw.text_metrics import ellipsise, text_width
from pastalang.plan.draw.timeline_builder import build_timeline
from tests.plan import samples

PLANS = {
    "product": samples.product(),
    "travel": samples.travel(),
    "tips": samples.tips(),
    "stacked": samples.stacked(),
    "three in lock-step": samples.wide(3, mode=Mode.LOCKSTEP),
    "sixty": samples.wide(60),
    "sequential": samples.inline(20),
}
HOSTILE = {
    "quotes": "say \"cheese\" & 'smile' {}",
    "end of the document": "</svg><script>alert({})</script>",
    "end of a comment": "--> ]]> <!-- {}",
    "line breaks": "first\nsecond\r\n\tthird {}",
    "emoji": "👩‍👩‍👧 🍝 {}",
    "control characters": "a\x00b\x1b[31mc\x7f\ufffe {}",
    "right to left": "\u202eevil\u202c שלום {}",
    "half a pair": "\ud800 {}",
    "very long": "x" * 10_000 + "{}",
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_no_two_labels_overlap(plan: Plan) -> None:
    layout = lay_out(build_timeline(plan), width=WIDTH, top=LANES)
    strip = lay_strip(position_stretches(plan), left=layout.axis.left, right=WIDTH - 40, top=layout.box.bottom + 56)
    labels = [*layout.labels, *layout.chips, *(strip.labels if strip else ())]
    for one, other in combinations(labels, 2):
        assert not one.box.overlaps(other.box), f"{one.text!r} and {other.text!r}"


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_every_label_stays_on_the_page(plan: Plan) -> None:
    layout = lay_out(build_timeline(plan), width=WIDTH, top=LANES)
    for label in layout.labels:
        assert label.box.left >= 0, label.text
        assert label.box.right <= WIDTH, label.text


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_a_bar_is_as_long_as_its_limit_apart_from_the_stretches_where_no_time_passes(plan: Plan) -> None:
    timeline = build_timeline(plan)
    layout = lay_out(timeline, width=WIDTH, top=LANES)
    limits = {f"at most {bar.hole.max_tokens} tokens": bar.hole.max_tokens for bar in timeline.bars}
    for shape in layout.bars:
        length = shape.box.width - sum(right - left for left, right in shape.pale)
        tokens = limits[shape.tip.rsplit(", ", 1)[1]]
        assert length == pytest.approx(max(3.0, tokens * layout.axis.scale), abs=0.01)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_the_same_plan_gives_the_same_bytes(plan: Plan) -> None:
    assert draw_svg(plan) == draw_svg(plan)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_name_can_break_out_of_its_text(name: str) -> None:
    drawn = draw_svg(samples.wide(4, name=name))
    drawn.encode("utf-8")
    root = ElementTree.fromstring(drawn)
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds <= {"svg", "title", "style", "rect", "text", "line", "path", "circle", "polygon"}
    assert len(drawn) < 60_000


def test_the_page_needs_nothing_from_elsewhere() -> None:
    drawn = draw_svg(samples.product())
    assert re.findall(r"(?:href|src|url|@import|@font-face|<script)", drawn) == []
    assert re.findall(r"https?://[^\"]*", drawn) == ["http://www.w3.org/2000/svg"]


def test_an_empty_answer_is_drawn_too() -> None:
    plan = samples.plan("nothing", samples.branch(0, ""))
    assert ElementTree.fromstring(draw_svg(plan)) is not None


def test_every_value_of_the_product_is_named() -> None:
    drawn = draw_svg(samples.product())
    for name in ("brand", "screen_size", "sku", "kind", "size.width", "size.unit", "ports[].count", "headline"):
        assert f">{name}</text>" in drawn


def test_a_wait_is_dotted_from_the_end_of_a_value_to_the_join() -> None:
    layout = lay_out(build_timeline(samples.product()), width=WIDTH, top=LANES)
    assert sum(line.waits for line in layout.lines) == 2  # screen_size until the join, headline from its fork on
    assert sum(bend.joins for bend in layout.bends) == 2


def calls_to_draw(plan: Plan) -> int:
    profile = cProfile.Profile()
    profile.runcall(draw_svg, plan)
    return sum(entry.callcount for entry in profile.getstats())


def test_the_work_of_drawing_grows_with_the_branches_and_no_faster() -> None:
    few, many = calls_to_draw(samples.wide(250)), calls_to_draw(samples.wide(1000))
    assert many < 5 * few < 10_000_000


def test_a_text_is_cut_to_the_room_there_is() -> None:
    cut = ellipsise("a rather long description", 60, 12)
    assert cut.endswith("…")
    assert text_width(cut, 12) <= 60
    assert ellipsise("short", 60, 12) == "short"
    assert ellipsise("anything", 5, 12) == ""


def test_a_branch_that_is_joined_late_waits_on_a_dotted_line() -> None:
    layout = lay_out(build_timeline(samples.travel()), width=WIDTH, top=LANES)
    axis = layout.axis
    waits = {(line.start, line.end) for line in layout.lines if line.waits}
    main, sights = (axis.leave(40), axis.leave(130)), (axis.enter(110) + 3, axis.enter(130))
    assert waits == {main, sights}
