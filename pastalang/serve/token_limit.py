"""A client's limit of tokens: how far it reaches into the text of an answer, in the end and while that is written."""

from __future__ import annotations

from typing import Final

from pastalang.runtime.encoder import Encoder

_OPEN: Final = 16  # tokens at the end of a text, all that may become others when it goes on


def within(text: str, limit: int | None, encoder: Encoder) -> str:
    """The beginning of a text that has at most so many tokens."""
    if limit is None or len(text.encode()) <= limit:
        return text
    return _beginning(text, encoder.text(text), limit, encoder)


class TokenLimit:
    """How far a limit reaches into a text that grows. Its tokens are counted only where they could matter: a text has
    at most as many as bytes, and from one count to the next it has to grow by what is left."""

    def __init__(self, most: int | None, encoder: Encoder) -> None:
        self._most = most
        self._encoder = encoder
        self._free = most or 0  # bytes of a text that is within the limit, whatever it is
        self._read = self._shown = ""
        self.is_passed = False  # what the limit lets a reader see is complete

    def reach(self, text: str) -> str:
        """What of the text so far is within the limit, however it goes on."""
        if self._most is None:
            return text
        if text != self._read and not self.is_passed:
            self._read, self._shown = text, self._count(text, self._most)
        return self._shown

    def _count(self, text: str, most: int) -> str:
        size = len(text.encode())
        if size <= self._free:
            return text
        tokens = self._encoder.afresh(text)
        if (left := most - len(tokens) - _OPEN) >= 0:
            self._free = size + left
            return text
        certain = max(len(tokens) - _OPEN, 0)
        self.is_passed = certain >= most
        return _beginning(text, tokens, min(certain, most), self._encoder)


def _beginning(text: str, tokens: tuple[int, ...], count: int, encoder: Encoder) -> str:
    return text if len(tokens) <= count else encoder.decode(tokens[:count]).rstrip("\ufffd")
