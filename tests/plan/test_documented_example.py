"""The example of docs/testing.md is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def _example(*changes: tuple[str, str]) -> dict[str, Any]:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    [drawn] = [block for block in blocks if "@given" in block]
    for old, new in changes:
        drawn = drawn.replace(old, new)
    names: dict[str, Any] = {}
    exec(compile(drawn, "<docs/testing.md>", "exec"), names)  # not a path: nobody should read the page as Python
    return names


EXAMPLE = _example()


@pytest.mark.parametrize("name", [name for name in EXAMPLE if name.startswith("test_")])
def test_the_documented_example_holds(name: str) -> None:
    EXAMPLE[name]()


def test_the_documented_example_fails_for_another_program() -> None:
    wrong = _example(("number(min=0, max_tokens=8)", "string(max=9) after brand"), ("4) after brand", "4) after price"))
    _, *about_passes_and_sight = [name for name in EXAMPLE if name.startswith("test_")]
    assert len(about_passes_and_sight) == 2
    for name in about_passes_and_sight:
        with pytest.raises(AssertionError):
            wrong[name]()
