"""`make demo`: watch a small model extract attributes from product listings, and see what that costs.

Each listing is decoded twice, with all values at the same time and with one value after another."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pastalang
from examples.check import problems, show_all, summary
from examples.demo.view import Board, Cost, Ink, Race, count_right, ratios, show_answer, show_costs
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine
    from pastalang.runtime.result import Result

MODEL = "pasta-mini"
PROGRAM = Path("examples/demo/listings.pasta")
LISTINGS = Path("examples/demo/listings.jsonl")
PAGE = Path("build/demo.html")
CELLS = 8192  # enough for one listing
PACE = 0.09  # seconds between two forward passes that are watched


@dataclass(frozen=True, slots=True)
class Listing:
    """`template` asks for the attributes of the listing; `values` are the right answers."""

    template: str
    title: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Demo:
    engine: Engine
    plans: Mapping[tuple[str, Mode], Plan]
    listings: Sequence[Listing]
    ink: Ink
    is_watched: bool

    def plan(self, listing: Listing, mode: Mode) -> Plan:
        return self.plans[listing.template, mode]

    def run(self, listing: Listing, mode: Mode) -> Result:
        return self.engine.run(self.plan(listing, mode), {"title": listing.title}, any_mode=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--model", default=MODEL, help="a folder with a model (default: the model of the package)")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the page of one run is written")
    given = parser.parse_args(arguments)
    is_watched = sys.stdout.isatty()
    ink = Ink(is_watched and "NO_COLOR" not in os.environ)
    outcomes = show_all()
    try:
        _say(ink.bold("Values that do not depend on one another are written at the same time."), "")
        demo = _prepare(given.model, ink, is_watched)
        _watch(demo)
        _extract_all(demo)
        _say(f"Who wrote what in which pass, as one page without network: {_page(demo, given.page)}")
        _say(f"The programs in examples/, without a model: {summary(outcomes)}", "", *_try(given.model, ink))
    except PastaError as problem:
        _say(summary(outcomes))
        print(f"\nThe demo needs a model, and has none: {problem}", file=sys.stderr)
        return 3
    for found in problems(outcomes):
        print(found, file=sys.stderr)
    return 1 if problems(outcomes) or not outcomes else 0


def _prepare(model: str, ink: Ink, is_watched: bool) -> Demo:
    """Load everything and run each template once, so that neither side of the comparison pays for that."""
    listings = read_listings(LISTINGS)
    program = pastalang.load(PROGRAM)
    plans = {
        (template, mode): pastalang.build_plan(program.templates[template], program, mode=mode)
        for template in dict.fromkeys(listing.template for listing in listings)
        for mode in (Mode.STRICT, Mode.SEQUENTIAL)
    }
    _say(ink.faint(f"loading {model} …"))
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    engine = pastalang.Engine.load(model, cells=CELLS)
    demo = Demo(engine, plans, listings, ink, is_watched)
    for listing in {listing.template: listing for listing in listings}.values():
        for mode in (Mode.STRICT, Mode.SEQUENTIAL):
            demo.run(listing, mode)
    return demo


def read_listings(path: Path) -> list[Listing]:
    """Raises `BadData` or `BadRow`."""
    from pastalang.training.data import CATEGORY, VALUE, read_rows
    from pastalang.training.metrics import field_texts

    return [Listing(str(row[CATEGORY]), str(row["title"]), field_texts(row[VALUE])) for _, row in read_rows(path)]


def _watch(demo: Demo) -> None:
    """The first listing, live: all values at once, then one after another. Without a terminal: its timeline."""
    first, ink = demo.listings[0], demo.ink
    slowed = ", slowed down to be watched" if demo.is_watched else ""
    _say("", ink.bold(f"One listing, {len(first.values)} values at once{slowed}"), "", f"  {first.title}", "")
    if not demo.is_watched:
        from pastalang.runtime.display.timeline import draw_timeline

        timeline = draw_timeline(demo.run(first, Mode.STRICT).trace, width=60)
        _say(*(f"  {line}" for line in timeline.splitlines()), "")
        return
    at_once = _live(demo, first, Mode.STRICT)
    _say("", ink.bold("The same, one value after another"), "")
    in_sequence = _live(demo, first, Mode.SEQUENTIAL)
    _say("", ink.faint(f"  {at_once} forward passes, and {in_sequence}"), "")


def _live(demo: Demo, listing: Listing, mode: Mode) -> int:
    """Draw the fields as they grow; the number of forward passes."""
    from pastalang.runtime.events import Done, Failed

    board = Board(sys.stdout, list(listing.values), demo.ink, pace=PACE)
    for event in demo.engine.stream(demo.plan(listing, mode), {"title": listing.title}, any_mode=True):
        if isinstance(event, Done):
            board.draw()
            return event.result.usage.forward_passes
        if isinstance(event, Failed):
            raise event.error
        board.show(event)
    raise AssertionError("a run ends with `Done` or `Failed`")


def _extract_all(demo: Demo) -> None:
    ink, races, right = demo.ink, [], dict.fromkeys((Mode.STRICT, Mode.SEQUENTIAL), 0)
    asked = sum(len(listing.values) for listing in demo.listings)
    _say(ink.bold(f"{len(demo.listings)} listings, and where in the title each value stands"))
    for listing in demo.listings:
        costs = {}
        for mode in right:
            began = time.perf_counter()
            result = demo.run(listing, mode)
            costs[mode] = Cost(result.usage.forward_passes, time.perf_counter() - began)
            right[mode] += count_right(result.value, listing.values)
            if mode is Mode.STRICT:
                _say("", *show_answer(listing.title, result.value, listing.values, ink))
        races.append(Race(listing.title, costs[Mode.STRICT], costs[Mode.SEQUENTIAL]))
    _say("", ink.bold("What that has cost, and what it costs the same model to write one value after another"), "")
    fewer, faster = ratios(races)
    _say(*show_costs(races, ink), "", f"  {fewer:.1f} times fewer forward passes, {faster:.1f} times faster")
    _say(f"  right: {right[Mode.STRICT]} of {asked} at once, {right[Mode.SEQUENTIAL]} of {asked} in turn", "")


def _page(demo: Demo, path: Path) -> Path:
    from pastalang.runtime.display.page import page_of, render_page

    first = demo.listings[0]
    page = render_page(page_of(demo.run(first, Mode.STRICT), demo.plan(first, Mode.STRICT)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as problem:
        raise PastaError(f"{path} could not be written: {problem.strerror}") from problem
    return path.resolve()


def _try(model: str, ink: Ink) -> list[str]:
    named = "" if model == MODEL else f" --model {model}"
    return [
        ink.faint("Now with a title of your own:"),
        f"  .venv/bin/pasta run {PROGRAM} --template headphones{named} -i title='...' --trace page.html",
    ]


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"  # set before an import reads it
    sys.exit(main())
