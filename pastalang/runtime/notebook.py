"""A result in a notebook: the answer, each part in the colour of the branch that wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pastalang.runtime.result import Stretch

_HUE_STEP = 137.508  # degrees: neighbouring numbers get colours that are easy to tell apart
_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:13px/1.6 ui-monospace,Menlo,Consolas,monospace"
_CAPTION = "color:#6b7385;font:12px system-ui,sans-serif;margin-top:6px"


def answer_html(stretches: Iterable[Stretch], names: dict[int, str], caption: str) -> str:
    """`names` are the titles of the lanes. Everything that a model or a document wrote is escaped."""
    spans = "".join(_span(stretch, names.get(stretch.lane, "")) for stretch in stretches)
    return f'<div><pre style="{_PRE}">{spans}</pre><div style="{_CAPTION}">{escape(caption)}</div></div>'


def hue(number: int) -> str:
    """The hue of a lane or a field. Neighbouring numbers are easy to tell apart."""
    return f"{number * _HUE_STEP % 360:.0f}"


def _span(stretch: Stretch, name: str) -> str:
    text = escape(stretch.text)
    if stretch.is_forced:
        return f'<span style="color:#6b7385">{text}</span>'
    shade = f"background:hsl({hue(stretch.lane)} 62% 88%);color:#1d2330;border-radius:3px"
    return f'<span style="{shade}" title="{escape(name)}">{text}</span>'
