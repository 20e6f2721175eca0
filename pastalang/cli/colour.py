"""Colours for what people read on a terminal: diagnostics as `render_text` writes them, and notes."""

from __future__ import annotations

import os
import re
from typing import Final, TextIO

_RED, _YELLOW, _GREEN, _BLUE, _END = "\x1b[1;31m", "\x1b[1;33m", "\x1b[32m", "\x1b[34m", "\x1b[0m"
_PARTS: Final = (
    (re.compile(r"^error\[[\w-]+\]", re.MULTILINE), _RED),
    (re.compile(r"^warning\[[\w-]+\]", re.MULTILINE), _YELLOW),
    (re.compile(r"^(?:note|help):|^ *= help:", re.MULTILINE), _GREEN),
    (re.compile(r"(?<=\| )[ ]*\^+(?: .*)?$", re.MULTILINE), _RED),
    (re.compile(r"(?<=\| )[ ]*-+(?: .*)?$", re.MULTILINE), _BLUE),
    (re.compile(r"^ *(?:-->|::>)|^ *\d* \|", re.MULTILINE), _BLUE),
)


def shows_colours(stream: TextIO) -> bool:
    """On a terminal, unless the user has asked for none (see no-color.org) or the terminal has none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, stream: TextIO) -> str:
    """The text as it is shown on the stream."""
    if not shows_colours(stream):
        return text
    for part, colour in _PARTS:
        text = part.sub(rf"{colour}\g<0>{_END}", text)
    return text
