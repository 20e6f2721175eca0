"""What holds for the drawing of every plan."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from pastalang import Plan
from pastalang.plan.draw.graphs import draw_dot, draw_mermaid
from pastalang.plan.draw.svg import LANES, WIDTH, draw_svg, lay_out
from pastalang.plan.draw.terminal import draw_text
from pastalang.plan.draw.text_metrics import cells_of
from pastalang.plan.draw.timeline_builder import build_timeline
from pastalang.plan.forecast import forecast
from pastalang.testing import plans


def check_drawings(plan: Plan) -> None:
    timeline = build_timeline(plan)
    assert {lane.branch.id for lane in timeline.lanes} == {branch.id for branch in plan.branches}
    assert timeline.passes >= forecast(plan).longest.passes
    layout = lay_out(timeline, width=WIDTH, top=LANES)
    for one, other in combinations([*layout.labels, *layout.chips], 2):
        assert not one.box.overlaps(other.box), f"{one.text!r} and {other.text!r}"
    for label in layout.labels:
        assert 0 <= label.box.left <= label.box.right <= WIDTH
    for shape in layout.bars:
        assert shape.box.right <= WIDTH
    ElementTree.fromstring(draw_svg(plan))
    assert max(map(cells_of, draw_text(plan, width=80).splitlines())) <= 80
    assert draw_dot(plan).endswith("}\n")
    assert draw_mermaid(plan).startswith("flowchart LR\n")


@given(plans())
@settings(max_examples=30)
def test_every_plan_can_be_drawn(plan: Plan) -> None:
    check_drawings(plan)


@pytest.mark.long
@given(plans())
@settings(max_examples=10_000)
def test_ten_thousand_plans_can_be_drawn(plan: Plan) -> None:
    check_drawings(plan)
