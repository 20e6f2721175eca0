"""What mkdocs calls while it builds the site: pages beside docs/ and those of Python, the navigation, and links."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))  # mkdocs loads a hook as a file, and not as a part of its package

from pastalang.diagnostics import registry
from website import reference
from website.pages import Site

SITE = Site.of()
CODES, DECISIONS = "pastalang/diagnostics/codes", "decisions"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.repo_url = SITE.repository
    config.repo_name = "Source"
    config.nav = [_filled(entry) for entry in config.nav or []]
    return config


def _filled(entry: Any) -> Any:
    """An entry of the navigation in which a folder is replaced by its pages."""
    match entry:
        case dict():
            return {title: _filled(below) for title, below in entry.items()}
        case list():
            filled = [_filled(below) for below in entry]
            return [page for below in filled for page in (below if isinstance(below, list) else [below])]
        case str() if not entry.endswith(".md"):
            return _pages_of(entry)
    return entry


def _list_of_codes() -> str:
    words = "What `pasta check` can say of a program. `pasta explain CODE` prints these pages."
    rows = (f"| [`{code.word}`]({code.word}.md) | {_cell(code.summary)} |" for code in registry.CODES.values())
    return "\n".join([f"# Diagnostics\n\n{words}\n", "| code | what is wrong |", "|---|---|", *rows])


def _list_of_decisions() -> str:
    """Its rows are the titles of the pages, which begin with a number."""
    titles = {
        path.name: path.read_text("utf-8").partition("\n")[0].removeprefix("# ").partition(" ")
        for path in sorted((SITE.root / "docs" / DECISIONS).glob("0*.md"))
    }
    rows = (f"| {number} | [{_cell(title)}]({name}) |" for name, (number, _, title) in titles.items())
    return "\n".join(["", "| | decision |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _pages_of(folder: str) -> list[str]:
    if folder == reference.FOLDER:
        return [f"{folder}/README.md", *(f"{folder}/{page}.md" for page in reference.PAGES)]
    beside = [page for page in SITE.beside_docs if page.startswith(f"{folder}/") and page.endswith(".md")]
    inside = (path.relative_to(SITE.root / "docs").as_posix() for path in (SITE.root / "docs" / folder).glob("*.md"))
    listed = [f"{folder}/README.md"] if folder == CODES else []
    return sorted([*listed, *beside, *inside], key=lambda page: (not page.endswith("README.md"), page))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in SITE.beside_docs:
        files.append(File.generated(config, path, abs_src_path=str(SITE.root / path)))
    for path, text in {**reference.pages(), f"{CODES}/README.md": _list_of_codes()}.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    text = SITE.with_links(page.file.src_uri, markdown)
    if page.file.src_uri == f"{DECISIONS}/README.md":
        text += _list_of_decisions()
    text = re.sub(r"(?m)^(```\w+) .+$", r"\1", text)  # "```pasta fields": a word for the tests about a block
    text = re.sub(r"(?m)^\|.*$", lambda row: _without_escapes(row[0]), text)
    return re.sub(r"(?m)^!\[[^\]]*\]\((\S+\.svg)\)$", lambda image: _inline(image, page.file.src_uri), text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Short code without spaces, such as `--model`, is not divided between two lines."""
    return re.sub(r"<code>(?=[^<\s]{1,28}</code>)", '<code class="word">', html)


def _without_escapes(row: str) -> str:
    """A row of a table whose code has bars: GitHub wants them escaped there, and this Markdown shows the escapes."""
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row)


def _inline(image: re.Match[str], page: str) -> str:
    """A drawing of the class `themed` becomes a part of its page, so that it follows the mode that the reader chose."""
    drawing = (SITE.root / SITE.in_repository(page)).parent / image[1]
    text = drawing.read_text("utf-8") if drawing.is_file() else ""
    if 'class="themed"' not in text:
        return image[0]
    return (
        f'<div class="drawing">{re.sub(r"<style>.*?</style>", _without_colours, text, flags=re.DOTALL).strip()}</div>'
    )


def _without_colours(style: re.Match[str]) -> str:
    return re.sub(r"(?m)^(svg|@media) .*\n", "", style[0])
