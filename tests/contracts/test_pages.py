"""Every diagnostic code has a page; its example shows exactly this code, and its fix is clean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pastalang import check_path
from pastalang.diagnostics.registry import CODES, PAGES, READING

BLOCK = re.compile(r"```pasta(?: file=(\S+))?\n(.*?)```", re.DOTALL)
ABOUT_FILES = {code.word for code in READING}  # their examples are not text that a page could hold


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    assert found is not None, f"the page has no section {title}"
    return found.group(1)


def findings(text: str, folder: Path) -> set[str]:
    """The codes found in the block without a file name; the others are files beside it."""
    blocks = BLOCK.findall(text)
    assert [name for name, _ in blocks].count("") == 1
    for name, block in blocks:
        (folder / (name or "main.pasta")).write_text(block, encoding="utf-8")
    return {one.code for one in check_path(folder / "main.pasta")[1]}


@pytest.mark.parametrize("word", CODES)
def test_every_code_has_a_page_that_says_why(word: str) -> None:
    page = CODES[word].page.read_text(encoding="utf-8")
    assert page.startswith(f"# {word}\n")
    assert section(page, "Why").strip()
    assert section(page, "Fix").strip()


@pytest.mark.parametrize("word", [word for word in CODES if word not in ABOUT_FILES])
def test_the_example_of_a_page_shows_exactly_its_code(word: str, tmp_path: Path) -> None:
    assert findings(section(CODES[word].page.read_text(encoding="utf-8"), "Example"), tmp_path) == {word}


@pytest.mark.parametrize("word", [word for word in CODES if word not in ABOUT_FILES])
def test_the_fix_of_a_page_is_clean(word: str, tmp_path: Path) -> None:
    assert findings(section(CODES[word].page.read_text(encoding="utf-8"), "Fix"), tmp_path) == set()


def test_every_page_belongs_to_a_code() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(CODES)


def test_every_code_that_the_source_names_is_registered() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path("pastalang/check").glob("*.py"))
    named = set(re.findall(r'\.add\(\s*"([a-z-]+)"', source))
    assert named <= set(CODES) and len(named) > 20
