"""Every Markdown file of the repository renders as it was meant: tables, code, links and their anchors."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^ *\|.*\| *$", re.MULTILINE)


def documents() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True)
    names = listed.stdout.decode().splitlines()
    return [ROOT / name for name in names] or sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})


@cache
def tokens_of(path: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(path.read_text("utf-8")))


@cache
def anchors_of(path: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a file."""
    found: list[str] = []
    tokens = tokens_of(path)
    for opening, heading in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in heading.children or () if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.append(slug if slug not in found else f"{slug}-{sum(one == slug for one in found)}")
    return frozenset(found)


def texts(tokens: tuple[Token, ...] | list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from texts(token.children or [])


def broken_links(path: Path) -> Iterator[str]:
    for token in texts(tokens_of(path)):
        link = token.attrs.get("href") or token.attrs.get("src")
        if not isinstance(link, str) or re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            yield link


def broken_tables(path: Path) -> Iterator[str]:
    """Lines that look like rows and are not in a table, and rows with other cells than their header."""
    text = path.read_text("utf-8").splitlines()
    for token in texts(tokens_of(path)):
        if token.type == "paragraph_open" and token.map is not None:
            yield from (line for line in text[slice(*token.map)] if ROW.match(line))
        if token.type == "table_open" and token.map is not None:
            rows = [line.replace("\\|", "").strip().count("|") for line in text[slice(*token.map)]]
            yield from (line for line, cells in zip(text[slice(*token.map)], rows, strict=True) if cells != rows[0])


def open_fences(path: Path) -> Iterator[str]:
    """Blocks of code that run to the end of what they stand in, because nothing closes them."""
    text = path.read_text("utf-8").splitlines()
    for token in texts(tokens_of(path)):
        if token.type == "fence" and token.map is not None:
            last = text[token.map[1] - 1].strip()
            if not last or last.strip(token.markup[0]) or len(last) < len(token.markup):
                yield f"{path.name}:{token.map[0] + 1}"


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_renders_as_it_was_meant(path: Path) -> None:
    assert [*open_fences(path)] == []
    assert [*broken_tables(path)] == []
    assert [*broken_links(path)] == []


def test_what_does_not_render_is_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.md"
    bad.write_text(
        "# A title\n\ntext\n| a | b |\n\n[x](#a-title) [y](#none) [z](gone.md)\n\n```python\nopen\n", "utf-8"
    )
    assert [*broken_tables(bad)] == ["| a | b |"]
    assert [*broken_links(bad)] == ["#none", "gone.md"]
    assert [*open_fences(bad)] == ["bad.md:8"]
    uneven = tmp_path / "uneven.md"
    uneven.write_text("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| `x|y` | 2 |\n", "utf-8")
    assert len([*broken_tables(uneven)]) == 2  # a bar in code divides cells as well
