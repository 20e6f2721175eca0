"""Plans as text: readable at a glance, as wide as asked, whatever the names are."""

from __future__ import annotations

import pytest

from pastalang import Plan
from pastalang.plan.draw.terminal import draw_text
from pastalang.plan.draw.text_metrics import cells_of
from tests.plan import samples
from tests.plan.test_draw_svg import HOSTILE, PLANS

PRODUCT = """\
sample: JSON, strict: 9 values in 11 branches
worst case, excluding inputs

  passes     36: brand → headline
  sequential 125: 3.5× fewer passes in parallel
  at once    7 tokens in the busiest pass
  cells      376 at the peak, text counted in bytes (see --tokenizer)
  positions  up to 467

                     0         5         10        15        20        25        30  36 passes
  main
    brand            ████████████████████████ string or null
    screen_size      ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ number(0..) or null
    sku              ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ /[A-Z]{2}-[0-9]{4}/ or null
    kind             ▓▓▓▓▓▓▓▓▓▓▓▓▓▓ "tv" | "phone"
    size             ◆
      size.width       ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ number
      size.unit        ▓▓▓▓▓▓▓▓ "cm" | "in"
    ports            ◆░▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ string ×(0..4)
      ports[].count                ▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ intege…
    headline         ························█████████████████████████████████████████████████

  █ on the longest path   ▓ other values   ░ later items   · waits   ◆ a choice

Waves: the values of a line can be decoded together
    1  brand, screen_size, sku, kind, size.width, size.unit, ports[].name
    2  ports[].count, headline

Positions kept free: 369; the largest gaps
      224  ports
       49  size
       36  headline
       12  brand
       12  screen_size
"""

TRAVEL = """\
sample: running text, strict: 4 values in 3 branches
worst case, excluding inputs

  passes     170: opening → food → summary
  sequential 240: 1.4× fewer passes in parallel
  at once    2 tokens in the busiest pass
  cells      321 at the peak, text counted in bytes (see --tokenizer)
  positions  up to 288

            0                  50                 100               170 passes
  main      ███████████████···································████████████████
    food                   ███████████████████████████████████ string
    sights                 ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ string

  █ on the longest path   ▓ other values   · waits

Waves: the values of a line can be decoded together
    1  opening
    2  food, sights
    3  summary

Positions kept free: 120; the largest gaps
       60  food
       60  sights
"""


def test_the_product_example() -> None:
    assert draw_text(samples.product()) == PRODUCT


def test_the_travel_example_on_eighty_columns() -> None:
    assert draw_text(samples.travel(), width=80) == TRAVEL


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_no_line_is_longer_than_asked(plan: Plan, width: int) -> None:
    assert max(map(cells_of, draw_text(plan, width=width).splitlines())) <= width


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_name_breaks_the_lines_or_reaches_the_terminal_as_a_command(name: str) -> None:
    drawn = draw_text(samples.wide(4, name=name), width=100)
    drawn.encode("utf-8")
    assert all(character.isprintable() or character == "\n" for character in drawn)
    assert max(map(cells_of, drawn.splitlines())) <= 100
    assert len(drawn.splitlines()) == len(draw_text(samples.wide(4), width=100).splitlines())


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_a_terminal_that_knows_only_ascii_gets_ascii(plan: Plan) -> None:
    drawn = draw_text(plan, ascii_only=True)
    assert drawn.isascii()
    assert "?" not in drawn.replace("? a choice", "") or "◆" in draw_text(plan)


def test_a_thousand_branches_are_cut_to_a_page() -> None:
    drawn = draw_text(samples.wide(1000))
    assert "and 801 more branches" in drawn
    assert "and 992 more" in drawn
    assert len(drawn.splitlines()) < 250
