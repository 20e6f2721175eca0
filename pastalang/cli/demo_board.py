"""The fields of one answer on a terminal, each in a line of its own, growing at the same time; slow enough to watch."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TextIO

from pastalang.cli.demo_view import Ink
from pastalang.runtime.events import Event, FieldDone, FieldStarted, TextDelta

_UP = "\x1b[{lines}A"
_CLEAR_LINE = "\x1b[K"
_CURSOR = "▌"


class Board:
    """`names` are the fields in their order. A forward pass is drawn, and looked at for `pace` seconds."""

    def __init__(self, stream: TextIO, names: Sequence[str], ink: Ink, *, pace: float) -> None:
        self._stream = stream
        self._ink = ink
        self._pace = pace
        self._texts = dict.fromkeys(names, "")
        self._growing: set[str] = set()
        self._spoken: set[str] = set()  # since the last drawing
        self._is_drawn = False

    def tell(self, event: Event) -> None:
        match event:
            case FieldStarted(field=field):
                self._growing.add(_name(field))
            case TextDelta(field=field, text=text):
                name = _name(field)
                if name in self._spoken:  # a field speaks once in a pass
                    self.draw()
                self._spoken.add(name)
                self._texts[name] += text
            case FieldDone(field=field, text=text):
                self._texts[_name(field)] = text
                self._growing.discard(_name(field))
            case _:
                pass

    def draw(self) -> None:
        if self._is_drawn:
            self._stream.write(_UP.format(lines=len(self._texts)))
        width = max(map(len, self._texts))
        for number, (name, text) in enumerate(self._texts.items(), start=1):
            self._stream.write(f"{_CLEAR_LINE}    {name:<{width}}  {self._shown(number, name, text)}\n")
        self._stream.flush()
        self._spoken.clear()
        self._is_drawn = True
        time.sleep(self._pace)

    def _shown(self, number: int, name: str, text: str) -> str:
        """What a model wrote never moves the cursor of a terminal."""
        safe = "".join(letter for letter in text.strip('"') if letter.isprintable())
        if name in self._growing:
            return self._ink.mark(number, safe) + _CURSOR
        return self._ink.faint(safe) if text == "null" else self._ink.mark(number, safe)


def _name(path: str) -> str:
    """Keys that are no plain words stand in quotes in a path."""
    return str(json.loads(path)) if path.startswith('"') else path
