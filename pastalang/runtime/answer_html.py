"""Shows an answer as HTML: in a notebook in the colours of its branches, and as a page with its quotations marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from typing import Final

from pastalang.runtime.answer_parts import FieldResult, Stretch, shown_confidence
from pastalang.runtime.quotations import SourceSpan

_SHOWN: Final = 300  # characters of a value
_HUES: Final = (0, 137, 275, 52, 190)  # degrees that are easy to tell apart; a sixth would not be
_UNDER: Final = ("none", "underline 2px", "underline 2px dotted", "underline 2px double", "underline 2px wavy")
_PRE: Final = "white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:13px/1.6 ui-monospace,Menlo,Consolas,monospace"
_CAPTION: Final = "color:#6b7385;font:12px system-ui,sans-serif;margin-top:6px"

_BY_SHEET: Final = "--hue:{};--under:{}"
_INLINE: Final = "background:hsl({} 62% 86%);text-decoration:{};color:#1d2330;border-radius:3px"


def answer_html(stretches: Iterable[Stretch], names: dict[int, str], caption: str) -> str:
    """`names` are the titles of the lanes. Everything that a model or a document wrote is escaped."""
    spans = "".join(_span(stretch, names.get(stretch.lane, "")) for stretch in stretches)
    return f'<div><pre style="{_PRE}">{spans}</pre><div style="{_CAPTION}">{escape(caption)}</div></div>'


def hue(number: int) -> str:
    """The hue of a lane or a field, of which there are a few: those of one hue have different lines below them."""
    return str(_HUES[number % len(_HUES)])


def under(number: int) -> str:
    """The line below the text of a lane or a field, as CSS decorates it."""
    return _UNDER[number // len(_HUES) % len(_UNDER)]


def _span(stretch: Stretch, name: str) -> str:
    text = escape(stretch.text)
    if stretch.is_forced:
        return f'<span style="color:#6b7385">{text}</span>'
    shade = _INLINE.format(hue(stretch.lane), under(stretch.lane))
    return f'<span style="{shade}" title="{escape(name)}">{text}</span>'


@dataclass(frozen=True, slots=True)
class Mark:
    """A quotation in a text. `number` is the row of its field in the table, `colour` that of all items of the field."""

    field: FieldResult
    span: SourceSpan
    number: int
    colour: int

    @property
    def label(self) -> str:
        where = f", the first of {self.span.occurrences:,} places" if self.span.occurrences > 1 else ""
        return f"{self.field.where} · confidence {shown_confidence(self.field.confidence)}{where}"


def sources_page(
    fields: Sequence[FieldResult], sources: Mapping[str, str], *, windows: Sequence[tuple[int, int, str]] = ()
) -> str:
    """The HTML of the page. Everything that a model or a document wrote is escaped; there is no script.

    `windows` are the first and last character of each part that was read alone, and how that went.
    """
    marks = tuple(_marks(fields))
    rows = "".join(_row(number, field, marks) for number, field in enumerate(fields))
    texts = "".join(
        _source(path, text, [mark for mark in marks if mark.span.path == path]) for path, text in sources.items()
    )
    texts += _windows(windows)
    kind = "" if texts else ' class="alone"'
    page = _PAGE.format(rows=rows, texts=texts, kind=kind)
    return page.encode("utf-8", "replace").decode("utf-8")


def sources_html(fields: Sequence[FieldResult], sources: Mapping[str, str], lanes: Mapping[str, int]) -> str:
    """For a notebook: the sources with their quotations marked, or '' if no field quotes one. `lanes` are those that
    wrote the fields, by their places, so that a quotation has the colour of its value."""
    marks = [replace(mark, colour=lanes.get(mark.field.where, mark.colour)) for mark in _marks(fields)]
    quoted = {path: [mark for mark in marks if mark.span.path == path] for path in sources}
    texts = "".join(
        f'<div style="{_CAPTION}">{escape(path)}</div>'
        f'<pre style="{_PRE}">{marked_text(sources[path], found, _INLINE)}</pre>'
        for path, found in quoted.items() if found
    )  # fmt: skip
    return f'<div style="margin-bottom:10px">{texts}</div>' if texts else ""


def marked_text(text: str, marks: Sequence[Mark], style: str = _BY_SHEET) -> str:
    """The text as HTML with a `mark` for each quotation. Where quotations overlap, the shortest is seen."""
    places = [(mark.span.start, mark.span.end) for mark in marks]
    return "".join(
        _piece(text[start:end], start, [marks[number] for number in over], style)
        for start, end, over in stretches(len(text), places)
    )


def stretches(length: int, places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """The parts of a text of this length between the edges of places, each with the numbers of the places over it."""
    edges = sorted({0, length, *(min(max(edge, 0), length) for place in places for edge in place)})
    for start, end in pairwise(edges):
        yield start, end, [number for number, (first, last) in enumerate(places) if first < end and start < last]


def _marks(fields: Sequence[FieldResult]) -> Iterator[Mark]:
    colours: dict[str, int] = {}
    for number, field in enumerate(fields):
        for span in field.sources:
            yield Mark(field, span, number, colours.setdefault(field.path, len(colours)))


def _piece(text: str, start: int, over: Sequence[Mark], style: str) -> str:
    if not over:
        return escape(text)
    shortest = min(over, key=lambda mark: mark.span.end - mark.span.start)
    starting = (mark.number for mark in over if mark.span.start == start and style == _BY_SHEET)
    anchors = "".join(f'<a id="f{number}"></a>' for number in starting)
    labels = escape("\n".join(mark.label for mark in over))
    look = style.format(hue(shortest.colour), under(shortest.colour))
    return f'{anchors}<mark style="{look}" title="{labels}">{escape(text)}</mark>'


def _source(path: str, text: str, marks: Sequence[Mark]) -> str:
    return f'<section><h2>{escape(path)}</h2><div class="text">{marked_text(text, marks)}</div></section>'


def _windows(windows: Sequence[tuple[int, int, str]]) -> str:
    if not windows:
        return ""
    lines = "".join(f"<li>{start:,}–{end:,}: {escape(status)}</li>" for start, end, status in windows)
    return f"<section><h2>windows, in characters</h2><ol>{lines}</ol></section>"


def _row(number: int, field: FieldResult, marks: Sequence[Mark]) -> str:
    mine = [mark for mark in marks if mark.number == number]
    value = field.text if len(field.text) <= _SHOWN else field.text[:_SHOWN] + "…"
    name = escape(field.where)
    if mine:
        style = _BY_SHEET.format(hue(mine[0].colour), under(mine[0].colour))
        name = f'<a class="name" style="{style}" href="#f{number}">{name}</a>'
    places = ", ".join(f"{escape(mark.span.path)} {mark.span.start}–{mark.span.end}" for mark in mine)
    sure = shown_confidence(field.confidence)
    return f"<tr><td>{name}</td><td>{escape(value)}</td><td>{sure}</td><td>{places}</td></tr>\n"


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Answer</title><style>
:root {{ color-scheme: light dark; --line: #8885; --light: 86%; }}
@media (prefers-color-scheme: dark) {{ :root {{ --light: 30%; }} }}
body {{ margin: 0 auto; padding: 24px 28px 60px; max-width: 1400px;
  background: Canvas; color: CanvasText; display: grid; gap: 28px; align-items: start;
  grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); font: 15px/1.55 system-ui, sans-serif; }}
h1 {{ grid-column: 1 / -1; font-size: 22px; margin: 0; }}
h2 {{ font: 600 13px ui-monospace, Menlo, Consolas, monospace; margin: 0 0 8px; opacity: 0.7; }}
section {{ border: 1px solid var(--line); border-radius: 10px; padding: 14px 18px; margin-bottom: 16px; }}
.text, td {{ white-space: pre-wrap; overflow-wrap: break-word; }}
mark, .name {{ background: hsl(var(--hue) 62% var(--light)); color: inherit; border-radius: 3px; padding: 1px 0;
  text-decoration: var(--under); }}
.name {{ padding: 1px 4px; }}
a:target + mark {{ outline: 2px solid; }}
.alone {{ max-width: 900px; grid-template-columns: minmax(0, 1fr); }}
.alone main {{ display: none; }}
.wide {{ position: sticky; top: 12px; overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; font-size: 13.5px; }}
th, td {{ text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); padding: 5px 8px; }}
td:nth-child(3) {{ font-variant-numeric: tabular-nums; }}
@media (max-width: 900px) {{
  body {{ grid-template-columns: minmax(0, 1fr); gap: 8px; padding: 16px 12px 40px; }}
  .wide {{ position: static; }}
}}
</style></head><body{kind}><h1>Answer</h1>
<main>{texts}</main>
<div class="wide"><table><thead><tr><th>field</th><th>value</th><th>confidence</th><th>source</th></tr></thead><tbody>
{rows}</tbody></table></div></body></html>
"""
