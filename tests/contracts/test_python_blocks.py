"""Every Python block of the README and the pages runs as it stands there, next to the examples and `coffee.pasta`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PROGRAM = re.compile(r"^```pasta\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks() -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 2}", found.group(1))
        for page in PAGES
        for text in [page.read_text("utf-8")]
        for found in BLOCK.finditer(text)
    ]


def test_there_are_blocks_to_run() -> None:
    assert len(blocks()) >= 8


@pytest.mark.parametrize(("place", "code"), blocks(), ids=[place for place, _ in blocks()])
def test_a_python_block_runs_as_it_stands(
    place: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "outlines" in code:
        pytest.importorskip("outlines")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "coffee.pasta").write_text(PROGRAM.findall(PAGES[0].read_text("utf-8"))[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, place, "exec", dont_inherit=True), {"__name__": "documented"})
