"""The page of a real run: every lane, every token, every wait is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pastalang
from pastalang import Result, Sampling
from pastalang.runtime.display.page import PageDocument, page_of
from tests.runtime.display.test_page import drawn_by_a_browser, needs_chromium
from tests.runtime.test_engine import DOCUMENTS, PRODUCT, fake_engine

WARM = Sampling(temperature=1.0)


def ran(example: str) -> tuple[Result, PageDocument]:
    engine = fake_engine()
    (file,) = Path("examples").glob(f"{example}-*.pasta")
    plan = engine.plan(pastalang.load(file))
    inputs = json.loads(Path("examples/data", f"{file.stem}.json").read_text("utf-8"))
    result = engine.run(plan, inputs, sampling=WARM)
    return result, page_of(result, plan, model="a model of hashes")


def test_the_prompt_is_one_cell_of_the_first_lane() -> None:
    engine = fake_engine()
    result = engine.run(PRODUCT, {"title": "a 42 inch television"}, sampling=WARM)
    first = page_of(result, engine.plan(PRODUCT)).cells[0]
    assert (first.lane, first.forward_pass, first.position) == (0, 1, 0)
    assert first.text.startswith("User:\nTitle: a 42 inch television")


def test_a_prompt_kept_from_an_earlier_run_is_drawn_and_told_apart() -> None:
    engine = fake_engine()
    once, again = (engine.run(DOCUMENTS, {"title": ["a"]}, sampling=WARM) for _ in range(2))
    assert again.usage.reused_tokens > 0
    assert sum(fed.tokens for fed in again.trace.fed if fed.was_kept) == again.usage.reused_tokens
    plan = engine.plan(DOCUMENTS)
    assert page_of(again, plan).cells == page_of(once, plan).cells


def test_a_lane_sees_all_that_its_tokens_could_see() -> None:
    result, page = ran("01")
    widths = {sight.lane: 0 for sight in page.sights}
    for sight in page.sights:
        widths[sight.lane] += sight.tokens
    instructions = page.cells[0].tokens
    assert all(width > instructions for lane, width in widths.items() if lane)
    assert [lane.name for lane in page.lanes if "brand" in lane.name] == ["[0].brand", "[1].brand"]
    assert result.is_stacked


@needs_chromium
@pytest.mark.parametrize("example", ["01", "04"])
def test_a_browser_draws_every_lane_of_a_run(example: str, tmp_path: Path) -> None:
    _, page = ran(example)
    drawn = drawn_by_a_browser(page, tmp_path)
    assert drawn.count('class="lane-name"') == len(page.lanes) > 3
    assert drawn.count('class="cell"') == len(page.cells) > 50
    assert drawn.count('class="wait"') == len([one for one in page.joins if one.forward_pass > one.since]) > 0
