"""The room that text takes, without asking a font: widths are those of a wide font, so that nothing overlaps."""

from __future__ import annotations

import unicodedata
from math import fsum

NARROW = frozenset("iljtfrI.,:;'|!()[]{}-/ `\"")
BROAD = frozenset("mwMW@%&")


def text_width(text: str, size: float) -> float:
    """Pixels at most, for ordinary fonts at this size."""
    return size * fsum(_em(character) for character in text)  # `sum` rounds otherwise from Python 3.12 on


def ellipsise(text: str, room: float, size: float) -> str:
    """As much of the text as there is room for, with `…` where something was left out; maybe nothing at all."""
    if len(text) <= 400 and text_width(text, size) <= room:
        return text
    left = room - text_width("…", size)
    kept = 0
    for character in text:
        left -= size * _em(character)
        if left < 0:
            break
        kept += 1
    return text[:kept].rstrip() + "…" if kept >= 2 else ""


def cells_of(text: str) -> int:
    """Columns in a terminal."""
    return sum(_cells(character) for character in text)


def fit_columns(text: str, columns: int) -> str:
    """As much of the text as fits into so many columns of a terminal, with `…` where something was left out."""
    if len(text) <= columns and cells_of(text) <= columns:
        return text
    return cut_columns(text, columns - 1).rstrip() + "…"


def cut_columns(text: str, columns: int) -> str:
    """As much of the text as fits into so many columns of a terminal."""
    left, kept = columns, 0
    for character in text:
        left -= _cells(character)
        if left < 0:
            break
        kept += 1
    return text[:kept]


def printable(text: str) -> str:
    """On one line, without characters that XML or a terminal would stumble over."""
    kept = (character if character.isprintable() else " " for character in text)
    return " ".join("".join(kept).split())


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0x2FFF:
        return 1.4
    if character in NARROW:
        return 0.43
    if character in BROAD:
        return 1.0
    return 0.70 if character.isupper() else 0.63
