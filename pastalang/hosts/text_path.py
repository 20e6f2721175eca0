"""The text that a branch sees, kept as the pieces of the branches that wrote it, each with its tokens.

Where these are not known, `LikelyBorders` says where the tokens of a server most likely end: nearly all tokenizers
write a space together with the letter, quote or bracket behind it, and keep it apart from a digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final


@dataclass(eq=False, slots=True)
class Page:
    """The text that one instance of a branch has written, as far as it is."""

    pieces: list[str] = field(default_factory=list)
    tokens: list[tuple[int, ...]] = field(default_factory=list)  # of each piece

    def write(self, text: str, tokens: tuple[int, ...] = ()) -> None:
        if text or tokens:
            self.pieces.append(text)
            self.tokens.append(tokens)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The first pieces of a page."""

    page: Page
    length: int

    @property
    def text(self) -> str:
        return "".join(self.page.pieces[: self.length])


class TextPath:
    """What a branch sees, in the order of the language: what it saw when it began, what it wrote, what it joined.

    A join brings what each joined branch saw and this one did not, then what that branch wrote.
    """

    def __init__(self, seen: Iterable[Stretch] = ()) -> None:
        self.own = Page()
        self._parts: list[Stretch] = list(seen)
        self._since = 0  # the pieces of its own that stand behind the last join

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return (*self._parts, *([self._rest] if self._since < len(self.own.pieces) else []))

    @property
    def text(self) -> str:
        return "".join(piece for page, start, end in self._seen() for piece in page.pieces[start:end])

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for page, start, end in self._seen() for one in page.tokens[start:end] for token in one)

    def _seen(self) -> Iterator[tuple[Page, int, int]]:
        """The pieces of each page that are read, each of them once."""
        known: dict[Page, int] = {}
        for one in self.stretches:
            start = known.get(one.page, 0)
            yield one.page, start, one.length
            known[one.page] = max(start, one.length)

    def fork(self) -> TextPath:
        """The path of a branch that begins here."""
        return TextPath(self.stretches)

    def join(self, other: TextPath) -> None:
        """See what another branch has written, from here on."""
        if self._since < len(self.own.pieces):
            self._parts.append(self._rest)
            self._since = len(self.own.pieces)
        seen = {one.page: one.length for one in self._parts}
        for one in other.stretches:
            if seen.get(one.page, 0) < one.length:
                self._parts.append(one)
                seen[one.page] = one.length

    @property
    def _rest(self) -> Stretch:
        return Stretch(self.own, len(self.own.pieces))


_PIECES: Final = re.compile(r" ?[^\W\d]| ?[^\s\w]|\d|\s", re.DOTALL)


class LikelyBorders:
    """Tokens as short as they may be, one for each byte: text has at most as many on the server."""

    def text(self, text: str) -> tuple[int, ...]:
        found: list[int] = []
        for piece in _PIECES.findall(text):
            first, *rest = piece.strip(" ").encode() or b" "
            found += [first + 256 * (len(piece) > 1), *rest]
        return tuple(found)

    def crosses(self, before: str, after: str) -> bool:
        """Whether a token spans the border between the two texts."""
        border = len(before)
        return any(piece.start() < border < piece.end() for piece in _PIECES.finditer(before + after))
