"""The page of a run draws what happened and lets no data act."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pastalang.runtime.answer_parts import Stretch
from pastalang.runtime.display.page import PageCell, PageDocument, PageLane, SeenLane, render_page
from pastalang.runtime.trace import JoinedLanes

HOSTILE = '</script><img src=x onerror="document.title=1">%SCRIPT%\u2028 & é'

DOCUMENT = PageDocument(
    title=HOSTILE,
    subtitle="strict",
    figures=(("3", "forward passes"),),
    passes=3,
    sequential_passes=9,
    lanes=(PageLane(0, "", None, None), PageLane(1, "brand", 0, 1), PageLane(2, "headline", 0, 1)),
    cells=(
        PageCell(0, 1, "prompt", 12, None, 0),
        PageCell(1, 1, HOSTILE, 1, 0.5, 12),
        PageCell(2, 2, '"headline": ', 4, None, 20),
        PageCell(2, 2, "Sharp", 1, 0.9, 24),
        PageCell(2, 3, '"', 1, 1.0, 25),
    ),
    joins=(JoinedLanes(2, (1,), 1, 2),),
    sights=(SeenLane(1, 0, 12), SeenLane(2, 0, 12), SeenLane(2, 1, 1)),
    answer=(Stretch("{", 0, True), Stretch(HOSTILE, 1, False), Stretch("}", 0, True)),
)


def test_the_data_arrive_whole_and_inert() -> None:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', render_page(DOCUMENT), re.S)
    assert found is not None
    assert "<" not in found[1]
    assert json.loads(found[1])["cells"][1]["text"] == HOSTILE


def test_the_page_needs_no_network() -> None:
    page = render_page(DOCUMENT).replace("http://www.w3.org/2000/svg", "")
    assert "://" not in page
    assert "default-src 'none'" in page


needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")


def drawn_by_a_browser(page: PageDocument, folder: Path) -> str:
    file = folder / "run.html"
    file.write_text(render_page(page), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    place = [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000", "--dump-dom", file.as_uri()]
    return subprocess.run(["chromium", *flags, *place], capture_output=True, text=True, timeout=60, check=True).stdout


@needs_chromium
def test_a_browser_draws_every_lane_and_runs_nothing_from_the_data(tmp_path: Path) -> None:
    drawn = drawn_by_a_browser(DOCUMENT, tmp_path)
    assert drawn.count('class="lane-name"') == 3
    assert drawn.count('class="cell"') == 5
    assert drawn.count('class="wait"') == 1
    assert "<img" not in drawn
    assert "<title>1</title>" not in drawn
