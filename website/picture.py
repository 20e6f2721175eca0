"""Draws docs/images/passes.svg, the picture of the start page: an answer token by token, and in parallel.

    python -m website.picture

Both halves are of one run: that of the first program of README with pasta-mini.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from itertools import accumulate

import transformers

import pastalang
from pastalang.runtime.trace import Lane, Trace
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
    rows, _, end = lanes(trace, top=bottom + 48)
    words = [
        _text(f"Token by token: {len(pieces)} forward passes", 0, 16, "head"),
        _text(f"The same answer with PastaLang: {trace.passes} forward passes", 0, bottom + 34, "head"),
        f'<rect x="0" y="{end + 14}" width="14" height="14"/>',
        _text("known before the model starts", 22, end + 25, "note"),
        f'<rect class="value" style="--hue: 20" x="226" y="{end + 14}" width="14" height="14"/>',
        _text("decided by the model", 248, end + 25, "note"),
    ]
    title = f"{len(pieces)} forward passes, token by token; {trace.passes} in parallel"
    return svg("".join(words) + flow + rows, _WIDTH, end + 34, title=title)


def svg(drawing: str, width: int, height: int, *, title: str) -> str:
    size = f'viewBox="0 0 {width} {height}" style="max-width: {width * 1.18:.0f}px; min-width: {width * 0.7:.0f}px"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="themed" {size} role="img">'
    return f"{opening}<title>{escape(title)}</title><style>{_STYLE}</style>{drawing}</svg>\n"


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


def lanes(trace: Trace, *, top: int, column: int = 68) -> tuple[str, int, int]:
    """The values of a run, a row for each and a column for each forward pass; how wide that is, and where it ends."""
    names = {lane.id: _key(lane) for lane in trace.lanes if any(one.lane == lane.id for one in trace.drawn)}
    left = round(max(len(name) for name in names.values()) * _LETTER) + 17
    drawing = "".join(
        _text(str(number + 1), left + (number + 0.5) * column - 6, top + 12, "note") for number in range(trace.passes)
    )
    y = top + 20
    for lane, name in names.items():
        drawing += _box(name, 0, y, left - 8, None)
        for one in trace.drawn:
            if one.lane == lane:
                drawing += _box(one.text, left + (one.forward_pass - 1) * column, y, column - 4, _hue(lane))
        y += _LINE
    return drawing, left + column * trace.passes, y - _LINE + _HEIGHT


def _key(lane: Lane) -> str:
    return f"{lane.where}:" if lane.where.startswith('"') or lane.items else f'"{lane.where}":'


def _box(text: str, x: float, y: int, width: float, hue: float | None) -> str:
    """A token, or known text. What does not fit is cut; the whole stands in the title, which is shown on hovering."""
    kind = "" if hue is None else f' class="value" style="--hue: {hue}"'
    room = max(round((width - 8) / _LETTER), 1)
    shown, title = (text, "") if len(text) <= room else (f"{text[: room - 1]}…", f"<title>{escape(text)}</title>")
    words = escape(shown, quote=False).replace(" ", "\u00a0") if shown.strip() else "·"  # white space
    return (
        f'<g>{title}<rect{kind} x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT}"/>'
        f'<text x="{x + 4.5:.1f}" y="{y + 16}">{words}</text></g>'
    )


if __name__ == "__main__":
    main()
