"""Fields on a terminal while they are written, several at once; on anything else one line per finished field."""

from __future__ import annotations

import shutil
from typing import TextIO

from pastalang.runtime.events import Event, FieldAgain, FieldDone, FieldStarted, TextDelta

UP_AND_CLEAR = "\x1b[{lines}A\x1b[J"


class Live:
    def __init__(self, stream: TextIO, *, is_quiet: bool = False) -> None:
        self._stream = stream
        self._is_quiet = is_quiet
        self._is_terminal = stream.isatty()
        self._growing: dict[tuple[str, tuple[int, ...]], str] = {}
        self._shown = 0

    def tell(self, event: Event) -> None:
        if self._is_quiet:
            return
        match event:
            case FieldStarted(field=field, items=items):
                self._growing[field, items] = ""
            case TextDelta(field=field, items=items, text=text):
                self._growing[field, items] = self._growing.get((field, items), "") + text
            case FieldDone(field=field, items=items, text=text, truncated=truncated):
                self._growing.pop((field, items), None)
                self._erase()
                self._line(_shown(field, items, text) + (" (cut)" if truncated else ""))
            case FieldAgain(field=field, items=items, reason=reason):
                self._growing.pop((field, items), None)
                self._erase()
                self._line(_shown(field, items, f"again ({reason})"))
            case _:
                return
        if self._is_terminal:
            self._redraw()

    def close(self) -> None:
        self._erase()
        self._growing.clear()

    def _redraw(self) -> None:
        self._erase()
        size = shutil.get_terminal_size()
        growing = list(self._growing.items())[: max(size.lines - 2, 1)]
        for (field, items), text in growing:
            self._line(_shown(field, items, text)[: size.columns - 1])
        self._shown = len(growing)

    def _erase(self) -> None:
        if self._shown:
            self._stream.write(UP_AND_CLEAR.format(lines=self._shown))
            self._shown = 0

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def _shown(field: str, items: tuple[int, ...], text: str) -> str:
    """What a model wrote never moves the cursor: whatever is not printable is written as its code."""
    numbers = "".join(f"[{item}]" for item in items)
    return f"{field}{numbers}: " + "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
