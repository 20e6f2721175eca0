"""From a page document to one HTML file that needs no network and runs nothing that data could have written."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from importlib.resources import files

from pastalang.runtime.page.document import PageDocument


def render_page(document: PageDocument) -> str:
    """The page. Data enters as inert JSON and as text nodes, never as markup or script."""
    folder = files("pastalang.runtime.page")
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "%TITLE%": escape(document.title),
        "%STYLE%": folder.joinpath("page.css").read_text(encoding="utf-8"),
        "%DATA%": _inert_json(document),
        "%SCRIPT%": folder.joinpath("page.js").read_text(encoding="utf-8"),
    }
    return _fill(page, parts)


def _inert_json(document: PageDocument) -> str:
    """JSON in which no character can end the script element that holds it."""
    text = json.dumps(asdict(document), ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")


def _fill(page: str, parts: dict[str, str]) -> str:
    """Put the parts in their places, in order, so that a marker inside a part stays what it is."""
    rest, filled = page, []
    for marker, part in parts.items():
        head, found, rest = rest.partition(marker)
        assert found, f"the page has no place for {marker}"
        filled += [head, part]
    return "".join([*filled, rest])
