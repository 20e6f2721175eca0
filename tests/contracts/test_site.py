"""The site is built strictly, every link of it leads somewhere, and every page can be reached from the start page."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("material", reason="the site is built with mkdocs-material: pip install 'pastalang[docs]'")

from website.pages import Site
from website.picture import PICTURE, picture

ROOT = Path(__file__).parents[2]
SITE = Site.of(ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@cache
def page_of(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The anchors of a page, and where it leads."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)
    anchors = frozenset(map(unescape, re.findall(r'<[^>]*?\bid="([^"]*)"', text)))
    return anchors, frozenset(map(unescape, re.findall(r'\b(?:href|src)="([^"]*)"', text)))


def pages(site: Path) -> list[Path]:
    return [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]


def is_elsewhere(link: str) -> bool:
    return re.match(r"[a-z]+:", link) is not None


def target_of(page: Path, link: str) -> tuple[Path, str]:
    name, _, anchor = link.partition("#")
    return (Path(posixpath.normpath(page.parent / name)) if name else page), anchor


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    broken: list[tuple[str, str]] = []
    for page in pages(site):
        for link in page_of(page)[1]:
            target, anchor = target_of(page, link)
            if is_elsewhere(link) or link in (".", "") or (target.is_file() and anchor in ("", "__top")):
                continue
            if not target.is_file() or anchor not in page_of(target)[0]:
                broken.append((page.relative_to(site).as_posix(), link))
    assert len(pages(site)) > 150 and broken == []


def test_every_link_to_the_repository_names_one_of_its_files(site: Path) -> None:
    links = {link for page in pages(site) for link in page_of(page)[1] if link.startswith(f"{SITE.repository}/")}
    files = [re.sub(r"#.*", "", link).split("/main/", 1)[1] for link in links if "/main/" in link]
    assert len(files) > 10 and [file for file in files if not (ROOT / file).exists()] == []


def test_every_page_can_be_reached_from_the_start_page(site: Path) -> None:
    reached, ahead = {site / "index.html"}, [site / "index.html"]
    while ahead:
        page = ahead.pop()
        links = {target_of(page, link)[0] for link in page_of(page)[1] if not is_elsewhere(link)} - reached
        reached |= links
        ahead += [link for link in links if link.suffix == ".html" and link.is_file()]
    assert [page for page in pages(site) if page not in reached] == []


def test_a_link_of_a_page_leads_to_the_same_thing_from_the_site() -> None:
    def link(page: str, target: str) -> str:
        return SITE.with_links(page, f"[x]({target})").removeprefix("[x](").removesuffix(")")

    assert link("bulk.md", "extraction.md#many-documents") == "extraction.md#many-documents"
    assert link("bulk.md", "../pastalang/grammar/SPEC.md#2-files") == "pastalang/grammar/SPEC.md#2-files"
    assert link("pastalang/grammar/SPEC.md", "../../docs/limits.md") == "../../limits.md"
    assert link("CONTRIBUTING.md", "README.md") == "index.md"
    assert link("bulk.md", "../examples") == "examples/README.md"
    assert link("bulk.md", "../examples/models.py#L3") == f"{SITE.repository}/blob/main/examples/models.py#L3"
    assert link("bulk.md", "../tests/corpus") == f"{SITE.repository}/tree/main/tests/corpus"
    assert link("bulk.md", "https://example.org") == "https://example.org"
    assert link("bulk.md", "../gone.md") == "../gone.md"


def test_code_of_a_page_is_left_as_it_stands() -> None:
    text = "```python\n[x](../examples/models.py)\n```\n`[x](../tests)` and [`y`](../tests)\n"
    assert SITE.with_links("bulk.md", text) == text.replace(
        "[`y`](../tests)", f"[`y`]({SITE.repository}/tree/main/tests)"
    )


def test_the_picture_of_the_start_page_is_that_of_a_run() -> None:
    assert PICTURE.read_text("utf-8") == picture()


def test_a_themed_picture_follows_the_mode_of_the_site(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    assert 'class="themed"' in start and "prefers-color-scheme: dark) { svg" not in start
