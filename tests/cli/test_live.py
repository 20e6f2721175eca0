"""The fields that `pasta run` shows while it runs, on a terminal and elsewhere."""

from __future__ import annotations

import io
import os

import pytest

from pastalang import Event, FieldAgain, FieldDone, FieldStarted, TextDelta
from pastalang.cli.run import LiveFields
from pastalang.plan.draw.text_metrics import cells_of
from tests.command import Terminal

AGAIN: tuple[Event, ...] = (
    FieldStarted("brand", ()),
    TextDelta("brand", (), '"So'),
    FieldDone("brand", (), '"So"', truncated=True),
    FieldAgain("brand", (), "no brand\nthat is known"),
    FieldStarted("brand", ()),
    TextDelta("brand", (), '"Sony"'),
    FieldDone("brand", (), '"Sony"', truncated=False),
)


def shown(stream: io.StringIO, *events: Event) -> str:
    live = LiveFields(stream)
    for event in events:
        live.show(event)
    return stream.getvalue()


def test_a_field_that_is_decoded_again_says_so_and_why() -> None:
    lines = shown(io.StringIO(), *AGAIN).splitlines()
    assert lines == ['brand: "So" (truncated)', "brand: decoded again (no brand\\nthat is known)", 'brand: "Sony"']


def test_on_a_terminal_the_text_of_the_old_attempt_disappears() -> None:
    last_drawn = shown(Terminal(), FieldStarted("note", ()), *AGAIN[:2], AGAIN[3]).rsplit("\x1b[J", 1)[1]
    assert "So" not in last_drawn and last_drawn.splitlines()[0].startswith("brand: decoded again")
    assert last_drawn.splitlines()[1:] == ["note: "]


@pytest.mark.parametrize("text", ["word " * 14, "東京都千代田区丸の内一丁目" * 2])
def test_a_growing_text_keeps_to_a_line_of_its_terminal(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(stream, "fileno", lambda: 7)
    monkeypatch.setattr(os, "get_terminal_size", lambda it=1: os.terminal_size((40 if it == 7 else 80, 24)))
    drawn = shown(stream, FieldStarted("title", ()), TextDelta("title", (), text)).rsplit("\x1b[J", 1)[1][:-1]
    assert 38 <= cells_of(drawn) < 40 and drawn.startswith(f"title: {text[:9]}")


@pytest.mark.parametrize("event", AGAIN)
def test_a_quiet_run_shows_nothing(event: Event) -> None:
    stream = io.StringIO()
    LiveFields(stream, is_quiet=True).show(event)
    assert stream.getvalue() == ""
