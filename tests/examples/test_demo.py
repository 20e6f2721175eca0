"""`make demo`: how it shows an answer, that it runs on any model, and its message without one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import pastalang
from examples.check import is_formatted
from examples.demo import __main__ as demo
from examples.demo.view import Board, Cost, Ink, Race, count_right, ratios, show_answer, show_costs
from pastalang import FieldDone, FieldStarted, Mode, TextDelta, check_path
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.runtime.models import source

PLAIN = Ink(is_coloured=False)


def test_a_title_is_shown_with_its_spans_and_what_is_wrong_with_them() -> None:
    given = {"Brand": "Norvika", "Roast": "Dark", "Pack": None, "Size": None}
    right = {"Brand": "Norvika", "Roast": "Dark Roast", "Pack": "of 3", "Size": None}
    assert show_answer("Norvika, Dark Roast, of 3", given, right, PLAIN) == [
        "  Norvika, Dark Roast, of 3",
        "  1──────  2───",
        "    1  Brand  Norvika  0–7",
        "    2  Roast  Dark     9–13   wrong: it is Dark Roast",
        "    –  Pack   missed: of 3",
        "    not stated: Size",
    ]
    assert count_right(given, right) == 2


def test_of_spans_that_overlap_the_first_one_is_underlined() -> None:
    lines = show_answer("Deep Red", {"a": "Deep Red", "b": "Red"}, {"a": "Deep Red", "b": "Red"}, PLAIN)
    assert lines[1] == "  1───────"


def test_costs_are_added_up() -> None:
    races = [Race("one", Cost(2, 0.5), Cost(6, 1.0)), Race("two", Cost(2, 0.5), Cost(10, 3.0))]
    assert ratios(races) == (4.0, 4.0)
    assert show_costs(races, PLAIN)[-1].split() == ["all", "of", "them", "4", "16", "1.00", "4.00"]


def test_fields_grow_in_parallel_one_pass_at_a_time() -> None:
    stream = io.StringIO()
    board = Board(stream, ["Brand", "Model name"], PLAIN, pace=0)
    for field in ("Brand", '"Model name"'):
        board.show(FieldStarted(field, ()))
    for word in ("a", "b"):
        for field in ("Brand", '"Model name"'):
            board.show(TextDelta(field, (), word))
    for field in ("Brand", '"Model name"'):
        board.show(FieldDone(field, (), '"ab"', truncated=False))
    board.draw()
    drawn = stream.getvalue().replace("\x1b[K", "").split("\x1b[2A")
    assert drawn == ["    Brand       a▌\n    Model name  a▌\n", "    Brand       ab\n    Model name  ab\n"]


def test_a_model_cannot_move_the_cursor() -> None:
    stream = io.StringIO()
    board = Board(stream, ["Brand"], PLAIN, pace=0)
    board.show(FieldDone("Brand", (), '"a\x1b[2J"', truncated=False))
    board.draw()
    assert "\x1b[2J" not in stream.getvalue()


def test_the_listings_of_the_demo_hold_what_is_asked_of_them() -> None:
    assert check_path(demo.PROGRAM)[1] == () and is_formatted(demo.PROGRAM)
    program = pastalang.load(demo.PROGRAM)
    for listing in demo.read_listings(demo.LISTINGS):
        body = program.templates[listing.template].messages[-1].body
        assert isinstance(body, JsonBody) and isinstance(body.type, t.Object)
        assert [field.key for field in body.type.fields] == list(listing.values)
        assert all(value is None or value in listing.title for value in listing.values.values())
        assert len(listing.title) < 79


def test_the_demo_runs_on_any_model(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "pages" / "demo.html"
    assert demo.main(["--model", str(model), "--page", str(page)]) == 0
    shown = capsys.readouterr().out
    listings = demo.read_listings(demo.LISTINGS)
    assert all(f"  {listing.title}\n" in shown for listing in listings)
    assert "forward passes, one column per pass" in shown
    assert str(page) in shown and page.read_text("utf-8").startswith("<!doctype html>")
    assert f"of {sum(len(listing.values) for listing in listings)} at once" in shown
    assert "12 examples: checked, format-checked and planned; 0 problems" in shown


def test_on_a_terminal_it_is_watched_in_both_ways(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PACE", 0)
    engine = pastalang.Engine.load(model, device="cpu", cells=demo.CELLS)
    program = pastalang.load(demo.PROGRAM)
    [first, *_] = demo.read_listings(demo.LISTINGS)
    template = program.templates[first.template]
    plans = {(first.template, mode): pastalang.build_plan(template, program, mode=mode) for mode in Mode}
    demo._watch(demo.Demo(engine, plans, [first], PLAIN, is_watched=True))
    shown = capsys.readouterr().out
    assert "The same, one value after another" in shown
    assert shown.count("\x1b[8A") > len(first.values)


def test_without_a_model_it_says_so_and_still_shows_the_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "WEIGHTS", tmp_path)
    assert demo.main([]) == 3
    said = capsys.readouterr()
    assert "The demo needs a model, and has none: pasta-mini is not part of this installation" in said.err
    assert "12 examples" in said.out
