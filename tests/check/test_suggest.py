"""Suggestions: similar words, and none where no word is similar."""

from __future__ import annotations

import pytest

from pastalang.diagnostics.suggest import did_you_mean


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("strng", "string"),
        ("sting", "string"),
        ("stirng", "string"),
        ("String", "string"),
        ("str", "string"),
        ("integr", "integer"),
        ("maximum", "max"),
        ("tempreature", "temperature"),
        ("xyz", None),
        ("", None),
        ("a" * 500, None),
    ],
)
def test_the_nearest_word_is_meant(written: str, meant: str | None) -> None:
    assert did_you_mean(written, ["string", "integer", "max", "temperature"]) == meant


def test_a_word_is_never_meant_by_itself() -> None:
    assert did_you_mean("max", ["max"]) is None
