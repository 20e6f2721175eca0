"""The SVG: well-formed whatever the names are, the same bytes each time, and no two labels on top of each other."""

from __future__ import annotations

import cProfile
import re
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from pastalang import Mode, Plan
from pastalang.plan.draw.svg import SIZES, WIDTH, draw_svg
from pastalang.plan.draw.text_metrics import ellipsise, text_width
from pastalang.plan.draw.timeline import build_timeline
from tests.plan import samples
from tests.plan.programs import plan_of, text_body

PLANS = {
    "product": samples.product(),
    "travel": samples.travel(),
    "tips": samples.tips(),
    "stacked": samples.stacked(),
    "three in lock-step": samples.wide(3, mode=Mode.LOCKSTEP),
    "sixty": samples.wide(60),
    "sequential": samples.wide(20, mode=Mode.SEQUENTIAL),
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


class Label(NamedTuple):
    y: float
    left: float
    right: float
    text: str


def elements(drawn: str, tag: str, kind: str = "") -> list[ElementTree.Element]:
    found = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}" + tag)
    return [one for one in found if kind in one.get("class", "").split() or not kind]


def labels_of(drawn: str) -> list[Label]:
    found = []
    for one in elements(drawn, "text"):
        text = "".join(one.itertext()) if len(one) == 0 else one[0].tail or ""
        left, width = float(one.get("x", "0")), text_width(text, SIZES[one.get("class", "")])
        found.append(Label(float(one.get("y", "0")), left, left + width, text))
    return found


def check_svg(plan: Plan) -> None:
    """No label lies on another, nothing leaves the page, and bars have the length of their limits."""
    drawn, timeline = draw_svg(plan), build_timeline(plan)
    labels = sorted(labels_of(drawn))
    for _, line in groupby(labels, key=attrgetter("y")):
        for one, other in pairwise(line):
            assert one.right <= other.left + 0.5, f"{one.text!r} and {other.text!r}"
    for label in labels:
        assert 0 <= label.left <= label.right <= WIDTH, label.text
    bars = elements(drawn, "rect", "bar")[: len(timeline.bars)]
    widths = [
        (bar.hole.max_tokens, float(shape.get("width", "0"))) for bar, shape in zip(timeline.bars, bars, strict=True)
    ]
    longest, its_width = max(widths, default=(1, 0.0))
    scale = (its_width + 8) / longest
    for limit, width in widths:
        assert width == pytest.approx(max(3.0, scale * limit - 8), abs=0.2)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_what_is_written_can_be_read(plan: Plan) -> None:
    check_svg(plan)
    assert draw_svg(plan) == draw_svg(plan)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_name_can_break_out_of_its_text(name: str) -> None:
    drawn = draw_svg(samples.wide(4, name=name))
    drawn.encode("utf-8")
    root = ElementTree.fromstring(drawn)
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds <= {"svg", "title", "style", "rect", "text", "path", "circle"}
    assert len(drawn) < 60_000


def test_the_page_needs_nothing_from_elsewhere_and_changes_nothing_there() -> None:
    drawn = draw_svg(samples.product())
    assert re.findall(r"(?:href|src|url|@import|@font-face|<script)", drawn) == []
    assert re.findall(r"https?://[^\"]*", drawn) == ["http://www.w3.org/2000/svg"]
    [style] = elements(drawn, "style")
    selectors = ", ".join(re.findall(r"\s*(.+?) \{.+?\}", style.text or "")).split(", ")
    assert len(selectors) > 30 and all(one.startswith(".pasta-plan ") for one in selectors)


def test_an_empty_answer_is_drawn_too() -> None:
    assert ElementTree.fromstring(draw_svg(plan_of(text_body()))) is not None


def test_every_value_of_the_product_is_named() -> None:
    drawn = draw_svg(samples.product())
    for name in ("brand", "screen_size", "sku", "kind", "size.width", "size.unit", "ports[].count", "headline"):
        assert f">{name}</text>" in drawn


def test_waits_are_dotted_and_joins_lead_to_who_waited() -> None:
    drawn = draw_svg(samples.travel())
    assert len(elements(drawn, "path", "wait")) == 2 + 1  # main and sights, and the sign of the legend
    assert len(elements(drawn, "path", "join")) == 2 + 1


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
