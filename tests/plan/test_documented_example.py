"""The example of docs/testing.md is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def _example() -> dict[str, Any]:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    [drawn] = [block for block in blocks if "@given" in block]
    names: dict[str, Any] = {}
    exec(compile(drawn, "<docs/testing.md>", "exec"), names)  # not a path: nobody should read the page as Python
    return names


EXAMPLE = _example()


@pytest.mark.parametrize("name", [name for name in EXAMPLE if name.startswith("test_")])
def test_the_documented_example_holds(name: str) -> None:
    EXAMPLE[name]()


def test_the_documented_example_has_tests() -> None:
    assert sum(name.startswith("test_") for name in EXAMPLE) == 3
