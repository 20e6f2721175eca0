"""Builds the site and checks it: python -m website [FOLDER]

Fails if mkdocs has anything to say, if a link or an anchor leads nowhere, if a page cannot be reached from the start
page, or if a link to the repository names none of its files. The folder is build/site if none is named.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path

from website.pages import ROOT, Site


def main() -> int:
    out = Path(sys.argv[1] if sys.argv[1:] else ROOT / "build" / "site").absolute()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    if (code := subprocess.run(command, cwd=ROOT, env=quiet).returncode) != 0:
        return code
    found = [*problems(out, Site.of())]
    print("\n".join(found) or f"{sum(1 for _ in out.rglob('*.html'))} pages: {out / 'index.html'}")
    return 1 if found else 0


def problems(out: Path, site: Site) -> Iterator[str]:
    reached, ahead = {out / "index.html"}, [out / "index.html"]
    while ahead:
        page = ahead.pop()
        name = page.relative_to(out)
        links = links_of(page)
        yield from (f"{name}: {link} leads nowhere" for link in sorted(links) if not _leads_somewhere(page, link, site))
        new = {_target(page, link)[0] for link in links if not _is_elsewhere(link)} - reached
        reached |= new
        ahead += [page for page in new if page.suffix == ".html" and page.is_file()]
    unreached = {page for page in out.rglob("*.html") if page.name != "404.html"} - reached
    yield from (f"{page.relative_to(out)}: no other page leads here" for page in sorted(unreached))


@cache
def _text(page: Path) -> str:
    return re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text("utf-8"), flags=re.DOTALL)


@cache
def links_of(page: Path) -> frozenset[str]:
    return frozenset(unescape(link) for link in re.findall(r'\b(?:href|src)="([^"]+)"', _text(page)))


@cache
def _anchors_of(page: Path) -> frozenset[str]:
    return frozenset(unescape(anchor) for anchor in re.findall(r'<[^>]*?\bid="([^"]*)"', _text(page)))


def _is_elsewhere(link: str) -> bool:
    return re.match(r"[a-z]+:", link) is not None


def _target(page: Path, link: str) -> tuple[Path, str]:
    name, _, anchor = link.partition("#")
    return (Path(posixpath.normpath(page.parent / name)) if name else page), anchor


def _leads_somewhere(page: Path, link: str, site: Site) -> bool:
    if _is_elsewhere(link):
        file = re.fullmatch(rf"{re.escape(site.repository)}/(?:blob|tree)/main/([^#]*)(?:#.*)?", link)
        return file is None or (site.root / file[1]).exists()
    target, anchor = _target(page, link)
    return target.is_file() and (anchor in ("", "__top") or anchor in _anchors_of(target))


if __name__ == "__main__":
    sys.exit(main())
