"""The site is built strictly, and whatever `python -m website` checks holds: links, anchors, ways to every page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pastalang
from pastalang import testing

pytest.importorskip("material", reason="the site is built with mkdocs-material: pip install 'pastalang[docs]'")

from website import reference
from website.__main__ import problems
from website.gallery import RUNS, SHOWN
from website.pages import Site
from website.picture import PICTURE, picture

SITE = Site.of()


def test_the_site_is_built_without_a_broken_link_and_follows_the_mode_of_its_reader(tmp_path: Path) -> None:
    built = subprocess.run([sys.executable, "-m", "website", str(tmp_path)], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    assert int(built.stdout.split()[0]) > 150
    start = (tmp_path / "index.html").read_text("utf-8")
    assert PICTURE.read_text("utf-8") == picture()
    assert 'class="themed"' in start and "prefers-color-scheme: dark) { svg" not in start


def test_links_and_pages_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    source = f"{SITE.repository}/blob/main"
    links = ["#here", "#gone", "b.html#there", f"{source}/README.md#speed", f"{source}/gone.py", "https://example.org"]
    start = '<p id="here">' + "".join(f'<a href="{link}">x</a>' for link in links)
    for name, text in {"index.html": start, "b.html": '<img src="c.png">', "alone.html": ""}.items():
        (tmp_path / name).write_text(text, "utf-8")
    wrong = [problem.split()[-3] for problem in problems(tmp_path, SITE) if "nowhere" in problem]
    assert wrong == ["#gone", "b.html#there", f"{source}/gone.py", "c.png"]
    assert [*problems(tmp_path, SITE)][-1].startswith("alone.html: ")


def test_a_link_of_a_page_leads_to_the_same_thing_from_the_site_and_code_has_no_links() -> None:
    def link(page: str, target: str) -> str:
        return SITE.with_links(page, f"`[x](../tests)`[`x`]({target})").removeprefix("`[x](../tests)`[`x`](")[:-1]

    assert link("bulk.md", "extraction.md#many-documents") == "extraction.md#many-documents"
    assert link("pastalang/grammar/SPEC.md", "../../docs/limits.md") == "../../limits.md"
    assert link("CONTRIBUTING.md", "README.md") == "index.md"
    assert link("bulk.md", "../examples") == "examples/README.md"
    assert link("bulk.md", "../examples/models.py#L3") == f"{SITE.repository}/blob/main/examples/models.py#L3"
    assert link("bulk.md", "../tests/corpus") == f"{SITE.repository}/tree/main/tests/corpus"
    assert link("bulk.md", "../gone.md") == "../gone.md"


def test_the_gallery_says_of_its_runs_what_is_in_them() -> None:
    sections = (SITE.root / "docs" / "gallery.md").read_text("utf-8").split("\n## ")[1:-1]
    assert len(sections) == len(SHOWN)
    for section, name in zip(sections, SHOWN, strict=True):
        picture, page = ((RUNS / f"{name}.{kind}").read_text("utf-8") for kind in ("svg", "html"))
        [passes, tokens] = re.findall(r"\*\*(\d+) passes, (\d+) left to right\.\*\*", section)[0]
        assert f"<title>{passes} forward passes, {tokens} left to right</title>" in picture
        [document] = re.findall(r"^```text\n(.*?)\n```", section, re.DOTALL | re.MULTILINE)
        words = document.replace("\n", " ")  # the page breaks long lines
        assert words in page.replace("\\n", " ") and f"(gallery/{name}.html)" in section


def test_every_public_name_has_one_place_and_a_line_in_the_reference() -> None:
    names = [name for page in reference.PAGES for name in reference.names_of(page)]
    assert sorted(names) == sorted([*pastalang.__all__, *(f"testing.{name}" for name in testing.__all__)])
    assert re.findall(r"\[`(\S+)`\]\(\S+\) \|  ?\|", reference.pages()["python/README.md"]) == []


def test_the_reference_shows_options_attributes_and_links() -> None:
    pages = reference.pages()
    assert "    retry_below: float | None = None,\n" in pages["python/extraction.md"]
    assert "| `usage` | `Usage` | tokens, forward passes, memory and time |" in pages["python/results.md"]
    assert "Raises [`LoadError`](errors.md#LoadError)." in pages["python/engines.md"]
