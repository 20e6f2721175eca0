"""What holds for the drawing of every plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from pastalang import Plan
from pastalang.plan.draw.terminal import draw_text
from pastalang.plan.draw.text_metrics import cells_of
from pastalang.plan.draw.timeline import build_timeline
from pastalang.plan.forecast import forecast
from pastalang.testing import plans
from tests.plan.test_draw_svg import check_svg


def check_drawings(plan: Plan) -> None:
    timeline = build_timeline(plan)
    assert {lane.branch.id for lane in timeline.lanes} == {branch.id for branch in plan.branches}
    assert timeline.passes >= forecast(plan).longest.passes
    check_svg(plan)
    assert max(map(cells_of, draw_text(plan, width=80).splitlines())) <= 80


@given(plans())
@settings(max_examples=30)
def test_every_plan_can_be_drawn(plan: Plan) -> None:
    check_drawings(plan)


@pytest.mark.long
@given(plans())
@settings(max_examples=10_000)
def test_ten_thousand_plans_can_be_drawn(plan: Plan) -> None:
    check_drawings(plan)
