"""Draws docs/images/passes.svg, the picture of the start page: an answer token by token, and in parallel.

    python -m website.picture

Both halves are of one run: that of the first program of README with pasta-mini.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate

import transformers

import pastalang
from pastalang.runtime.trace import Trace
from website.pages import ROOT

PICTURE = ROOT / "docs" / "images" / "passes.svg"
TITLE = "Norvika Coffee, Dark Roast, 12 oz"
_WIDTH, _LETTER, _HEIGHT, _LINE = 456, 7.3, 24, 30
_STYLE = """
svg { --ink: #1d2330; --faint: #626978; --known: #eceef2; --tint: 86%; }
@media (prefers-color-scheme: dark) { svg { --ink: #e4e7ee; --faint: #9aa3b5; --known: #2c313c; --tint: 30%; } }
text { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ink); }
.head { font: 600 14px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
.note { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; fill: var(--faint); }
rect { fill: var(--known); rx: 4px; }
.value { fill: hsl(var(--hue) 62% var(--tint)); }
.line { stroke: var(--faint); stroke-opacity: 0.3; }
"""


def main() -> None:
    PICTURE.write_text(picture(), encoding="utf-8")


def picture() -> str:
    program = pastalang.compile(first_program())
    result = pastalang.Engine.load("pasta-mini").run(program, title=TITLE)
    return drawn(json.dumps(result.value), result.trace)


def first_program() -> str:
    found = re.search(r"^```pasta\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def drawn(answer: str, trace: Trace) -> str:
    pieces = _pieces(answer)
    hues = _hues(answer, trace)
    flow, bottom = _flow(pieces, hues, top=34)
    lanes, end = _lanes(trace, top=bottom + 48)
    words = [
        _text(f"Token by token: {len(pieces)} forward passes", 0, 16, "head"),
        _text(f"The same answer with PastaLang: {trace.passes} forward passes", 0, bottom + 34, "head"),
        f'<rect x="0" y="{end + 14}" width="14" height="14"/>',
        _text("known before the model starts", 22, end + 25, "note"),
        f'<rect class="value" style="--hue: 20" x="226" y="{end + 14}" width="14" height="14"/>',
        _text("decided by the model", 248, end + 25, "note"),
    ]
    title = f"<title>{len(pieces)} forward passes, token by token; {trace.passes} in parallel</title>"
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="themed" viewBox="0 0 {_WIDTH} {end + 34}" role="img">'
    return f"{opening}{title}<style>{_STYLE}</style>{''.join(words)}{flow}{lanes}</svg>\n"


def _text(text: str, x: float, y: int, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{text}</text>'


def _pieces(answer: str) -> list[str]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "pastalang" / "weights" / "pasta-mini")
    return [tokenizer.decode([token]) for token in tokenizer.encode(answer, add_special_tokens=False)]


def _hues(answer: str, trace: Trace) -> list[float | None]:
    """For each letter of the answer, the hue of the lane that wrote it."""
    found: list[float | None] = [None] * len(answer)
    for lane in trace.lanes[1:]:
        written = "".join(one.text for one in trace.drawn if one.lane == lane.id)
        start = answer.index(written, answer.index(lane.name))
        found[start : start + len(written)] = [_hue(lane.id)] * len(written)
    return found


def _hue(lane: int) -> float:
    return round(lane * 137.508 % 360, 1)


def _flow(pieces: Sequence[str], hues: Sequence[float | None], *, top: int) -> tuple[str, int]:
    drawing, x = "", 0.0
    for piece, end in zip(pieces, accumulate(map(len, pieces)), strict=True):
        width = len(piece) * _LETTER + 9
        if x + width > _WIDTH:
            x, top = 0.0, top + _LINE
        drawing += _box(piece, x, top, width, hues[end - 1])
        x += width + 4
    return drawing, top + _HEIGHT


def _lanes(trace: Trace, *, top: int) -> tuple[str, int]:
    left, column = 116, 68
    drawing = "".join(
        _text(str(number + 1), left + (number + 0.5) * column - 6, top + 12, "note") for number in range(trace.passes)
    )
    y = top + 20
    for lane in trace.lanes[1:]:
        name = lane.name if lane.name.startswith('"') else f'"{lane.name}"'
        drawing += _box(f"{name}:", 0, y, left - 8, None)
        for box in _tokens(trace, lane.id, left, column, y):
            drawing += box
        y += _LINE
    return drawing, y - _LINE + _HEIGHT


def _tokens(trace: Trace, lane: int, left: int, column: int, y: int) -> Iterator[str]:
    for one in trace.drawn:
        if one.lane == lane:
            yield _box(one.text, left + (one.forward_pass - 1) * column, y, column - 4, _hue(lane))


def _box(text: str, x: float, y: int, width: float, hue: float | None) -> str:
    kind = "" if hue is None else f' class="value" style="--hue: {hue}"'
    shown = escape(text, quote=False).replace(" ", "\u00a0")
    return (
        f'<rect{kind} x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT}"/>'
        f'<text x="{x + 4.5:.1f}" y="{y + 16}">{shown}</text>'
    )


if __name__ == "__main__":
    main()
