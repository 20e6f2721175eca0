"""The spelling of free text, byte by byte: as a JSON string with all its escapes, or as plain text up to a stop text.

    JSON    open ─"─> between characters ⇄ inside one (UTF-8, an escape, half a pair of surrogates) ─"─> closed
    text              between characters ⇄ inside one (UTF-8)                                  ─stop─> closed

A place also records the last bytes, as far as a stop text or a forbidden text begins with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DEAD = -1
_HEX = b"0123456789abcdefABCDEF"
_BETWEEN, _OPEN, _CLOSED = "between", "open", "closed"


class Place(NamedTuple):
    """`tail` are the last bytes, as far as a stop text or a forbidden text begins with them."""

    inside: str
    tail: bytes


@dataclass(frozen=True)
class Spelling:
    """A table over all places.

    `completes[p, b]`: whether the byte completes a character. `stops[p, b]`: the length of a stop text that it ends.
    `taken[p, b]`: the characters of that stop text without the last. `pending[p]`: the number of last characters with
    which a stop text begins. `endings[p]`: the fewest bytes to a place between two characters; None if there are none.
    """

    next: NDArray[np.int32]
    completes: NDArray[np.bool_]
    stops: NDArray[np.int32]
    taken: NDArray[np.int32]
    pending: tuple[int, ...]
    between: tuple[bool, ...]
    endings: tuple[bytes | None, ...]
    start: int
    closed: int
    closing: bytes  # closes the value between two characters; empty in running text


@lru_cache(maxsize=64)
def spell_json(forbidden: tuple[str, ...]) -> Spelling:
    return _tabulate(_json_step, Place(_OPEN, b""), (), _bytes(forbidden), b'"')


@lru_cache(maxsize=64)
def spell_text(stops: tuple[str, ...], forbidden: tuple[str, ...]) -> Spelling:
    """Plain text. Its only control characters are tabs, and line ends if they do not stop the value."""
    return _tabulate(_text_step, Place(_BETWEEN, b""), _bytes(stops), _bytes(forbidden), b"")


@lru_cache(maxsize=1)
def spell_characters() -> Spelling:
    """Any characters, without escapes."""
    return _tabulate(_utf8_step, Place(_BETWEEN, b""), (), (), b"")


def _bytes(texts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts if text)


def _text_step(inside: str, byte: int) -> tuple[str, bool] | None:
    if inside == _BETWEEN and (byte == 0x7F or (byte < 0x20 and byte not in (0x09, 0x0A, 0x0D))):
        return None
    return _utf8_step(inside, byte)


def _utf8_step(inside: str, byte: int) -> tuple[str, bool] | None:
    """The next place between or inside characters, and whether the byte completes a character."""
    if inside == _BETWEEN:
        if byte < 0x80:
            return _BETWEEN, True
        for first, last, following in _LEADS:
            if first <= byte <= last:
                return following, False
        return None
    low, high, following = _TAILS[inside]
    return (following, following == _BETWEEN) if low <= byte <= high else None


_LEADS = (
    (0xC2, 0xDF, "1"), (0xE0, 0xE0, "E0"), (0xE1, 0xEC, "2"), (0xED, 0xED, "ED"), (0xEE, 0xEF, "2"),
    (0xF0, 0xF0, "F0"), (0xF1, 0xF3, "3"), (0xF4, 0xF4, "F4"),
)  # fmt: skip
_TAILS = {
    "1": (0x80, 0xBF, _BETWEEN), "2": (0x80, 0xBF, "1"), "3": (0x80, 0xBF, "2"), "E0": (0xA0, 0xBF, "1"),
    "ED": (0x80, 0x9F, "1"), "F0": (0x90, 0xBF, "2"), "F4": (0x80, 0x8F, "2"),
}  # fmt: skip

# Inside `\uXXXX`: the allowed digits, and the next place. A high surrogate must be followed by a low one.
_ESCAPES: dict[str, tuple[tuple[bytes, str], ...]] = {
    "u": ((b"0123456789abcefABCEF", "u3"), (b"dD", "uD")),
    "uD": ((b"01234567", "u2"), (b"89abAB", "h2")),
    "u3": ((_HEX, "u2"),),
    "u2": ((_HEX, "u1"),),
    "u1": ((_HEX, _BETWEEN),),
    "h2": ((_HEX, "h1"),),
    "h1": ((_HEX, "h\\"),),
    "h\\": ((b"\\", "hu"),),
    "hu": ((b"u", "hd"),),
    "hd": ((b"dD", "hc"),),
    "hc": ((b"cdefCDEF", "u2"),),
    "\\": ((b'"\\/bfnrt', _BETWEEN), (b"u", "u")),
}


def _json_step(inside: str, byte: int) -> tuple[str, bool] | None:
    if inside == _OPEN:
        return (_BETWEEN, False) if byte == 0x22 else None
    if inside == _BETWEEN and byte < 0x20:
        return None
    if inside == _BETWEEN and byte == 0x22:
        return _CLOSED, False
    if inside == _BETWEEN and byte == 0x5C:
        return "\\", False
    if inside in _ESCAPES:
        return next(
            ((following, following == _BETWEEN) for digits, following in _ESCAPES[inside] if byte in digits), None
        )
    return _utf8_step(inside, byte)


class _Table:
    def __init__(self) -> None:
        self.numbers: dict[Place, int] = {}
        self.waiting: list[Place] = []

    def number(self, place: Place) -> int:
        if place not in self.numbers:
            self.numbers[place] = len(self.numbers)
            self.waiting.append(place)
        return self.numbers[place]


def _tabulate(
    step: object, start: Place, stops: tuple[bytes, ...], forbidden: tuple[bytes, ...], closing: bytes
) -> Spelling:
    assert callable(step)
    table, rows = _Table(), []
    table.number(start)
    closed = table.number(Place(_CLOSED, b""))
    while table.waiting:
        place = table.waiting.pop(0)
        row, ends, cuts = np.full(256, DEAD, np.int32), np.zeros(256, np.bool_), np.zeros(256, np.int32)
        taken = np.zeros(256, np.int32)
        for byte in range(256) if place.inside != _CLOSED else ():
            moved = step(place.inside, byte)
            tail = place.tail + bytes((byte,))
            if moved is None or any(tail.endswith(text) for text in forbidden):
                continue
            stopped = [text for text in stops if tail.endswith(text)]
            inside, ends[byte] = moved
            if stopped:
                stop = max(stopped, key=len)
                row[byte], cuts[byte], taken[byte] = closed, len(stop), len(stop.decode()) - 1
            elif inside == _CLOSED:
                row[byte] = closed
            else:
                row[byte] = table.number(Place(inside, _tail(tail, (*stops, *forbidden))))
        rows.append((row, ends, cuts, taken))
    places = sorted(table.numbers, key=lambda place: table.numbers[place])
    following = np.stack([row for row, _, _, _ in rows])
    between = tuple(place.inside == _BETWEEN for place in places)
    return Spelling(
        following,
        np.stack([ends for _, ends, _, _ in rows]),
        np.stack([cuts for _, _, cuts, _ in rows]),
        np.stack([taken for _, _, _, taken in rows]),
        tuple(len(place.tail.decode("utf-8", "ignore")) for place in places),
        between,
        _endings(following, between, closed),
        0,
        closed,
        closing,
    )


def _tail(tail: bytes, texts: tuple[bytes, ...]) -> bytes:
    """The longest suffix of `tail` that is a prefix of one of the texts."""
    for start in range(len(tail)):
        if any(text.startswith(tail[start:]) for text in texts):
            return tail[start:]
    return b""


def _endings(following: NDArray[np.int32], between: tuple[bool, ...], closed: int) -> tuple[bytes | None, ...]:
    found: dict[int, bytes] = {place: b"" for place, is_between in enumerate(between) if is_between}
    changed = True
    while changed:
        changed = False
        for place in range(len(between)):
            if place in found or place == closed:
                continue
            ways = [(byte, int(end)) for byte, end in enumerate(following[place]) if int(end) in found]
            if ways:
                byte, end = min(ways, key=lambda way: len(found[way[1]]))
                found[place] = bytes((byte,)) + found[end]
                changed = True
    return tuple(found.get(place) for place in range(len(between)))
