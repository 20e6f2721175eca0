"""The pictures in the documentation are those of the examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from pastalang import build_plan, load
from pastalang.plan.draw.svg import draw_svg

ROOT = Path(__file__).parents[2]
PICTURES = {"product-attributes.svg": "01-product-attributes.pasta", "travel-plan.svg": "04-travel-plan.pasta"}


@pytest.mark.parametrize(("picture", "example"), PICTURES.items())
def test_the_picture_of_an_example_is_up_to_date(picture: str, example: str) -> None:
    program = load(ROOT / "examples" / example)
    drawn = draw_svg(build_plan(program.only_template, program))
    advice = f"pasta plan examples/{example} --format svg -o docs/images/{picture}"
    assert (ROOT / "docs" / "images" / picture).read_text(encoding="utf-8") == drawn, f"write it anew: {advice}"


def test_every_picture_is_shown() -> None:
    page = (ROOT / "docs" / "plan-pictures.md").read_text(encoding="utf-8")
    shown = {path.name for path in (ROOT / "docs" / "images").glob("*.svg") if f"images/{path.name}" in page}
    assert set(PICTURES) <= shown
