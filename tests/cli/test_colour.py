"""Colours are for terminals, and change nothing but the looks."""

from __future__ import annotations

import io
import re

import pytest

from pastalang import check_source
from pastalang.cli.output import coloured
from pastalang.diagnostics.render import render_text
from tests.command import Terminal

PROGRAM = "template t(a: text)\nassistant json { b: Optional[a], c: strin, c: integer }\n"


def test_a_terminal_shows_diagnostics_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    text = render_text(check_source(PROGRAM)[1])
    shown = coloured(text, Terminal())
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == text
    assert shown.startswith("\x1b[1;31merror[") and "^^^" in shown and "\x1b[32m  = help:\x1b[0m" in shown
    assert coloured(text, io.StringIO()) == text
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            assert coloured(text, Terminal()) == text
