"""The text that a branch sees, kept as the pieces of the branches that wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Page:
    """The text that one instance of a branch has written, as far as it is."""

    pieces: list[str] = field(default_factory=list)

    def write(self, text: str) -> None:
        if text:
            self.pieces.append(text)


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
        known: dict[Page, int] = {}
        parts: list[str] = []
        for one in self.stretches:
            start = known.get(one.page, 0)
            parts += one.page.pieces[start : one.length]
            known[one.page] = max(start, one.length)
        return "".join(parts)

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
