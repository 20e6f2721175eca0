"""Windows of a document: parts that a model can read, each of which begins in the one before it.

A window ends at a paragraph if the second half of it has one, else at a sentence or a line. Only a sentence that is
longer than a window is cut between words, and only a word that is longer than one inside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import regex

from pastalang.runtime.errors import BadInputs

MergeRule: TypeAlias = Literal["confidence", "agreement", "first"]

_RULES: Final = get_args(MergeRule)
_OVERLAP: Final = 8  # a window shares this part of it with the one before, unless the call says how much
_SENTENCE: Final = regex.compile(
    r"""(?:[.!?…]["'”’»)\]]*+\s++(?!\p{Ll})|[。！？]["'”’」』）]*+\s*+|\n\s*+)"""  # what ends a sentence or a line
)
_WORD: Final = regex.compile(r"\S++\s*+|\s++")
_GRAPHEME: Final = regex.compile(r"\X")


@dataclass(frozen=True, slots=True)
class Windowing:
    """How a document is read: tokens of a window, tokens that it shares with the one before it at most, and which value
    counts where windows give several.
    """

    window: int
    overlap: int
    merge: MergeRule = "confidence"


def windowing_of(given: Mapping[str, Any]) -> Windowing | None:
    """What the options of a call ask for; None to read documents as a whole. Raises `BadInputs`."""
    window, overlap, merge = given.get("window"), given.get("overlap"), given.get("merge")
    if window is None:
        name = next((name for name in ("overlap", "merge") if given.get(name) is not None), None)
        if name is not None:
            raise BadInputs(f"`{name}` is about windows: say how many tokens one has, such as `window=800`")
        return None
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise BadInputs(f"`window` must be a number of tokens, at least 1, not {window!r:.60}")
    overlap = window // _OVERLAP if overlap is None else overlap
    if isinstance(overlap, bool) or not isinstance(overlap, int) or not 0 <= overlap < window:
        raise BadInputs(f"`overlap` must be a number of tokens from 0 to below `window`, not {overlap!r:.60}")
    if merge is not None and merge not in _RULES:
        raise BadInputs(f'`merge` must be "confidence", "agreement" or "first", not {merge!r:.60}')
    return Windowing(window, overlap, merge or "confidence")


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens. A text of more than `longest` characters for each token is not counted: it has too many."""

    count: Callable[[str], int]
    longest: int

    def fits(self, text: str, most: int) -> int | None:
        """The number of tokens of a text; None if there are more than `most`."""
        if len(text) > most * self.longest:
            return None
        count = self.count(text)
        return count if count <= most else None


def windows_of(text: str, counter: TokenCounter, windowing: Windowing) -> Iterator[tuple[int, int]]:
    """The first and the last character of each window. Together they have all characters but white space."""
    if text.isspace() or not text:
        yield 0, len(text)
    for start, end in _Packer(text, counter, windowing).windows():
        if not text[start:end].isspace():
            yield start, end


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence, or a part of one that is too long, with the space behind it."""

    start: int
    end: int
    tokens: int
    ends_paragraph: bool


class _Packer:
    """Packs pieces into windows. `_open` are the pieces of the next one; its first `_shared` were in the last one."""

    def __init__(self, text: str, counter: TokenCounter, windowing: Windowing) -> None:
        self._text = text
        self._counter = counter
        self._windowing = windowing
        self._pieces = _pieces_of(text, counter, windowing.window)
        self._next = next(self._pieces, None)
        self._open: deque[_Piece] = deque()
        self._shared = 0

    def windows(self) -> Iterator[tuple[int, int]]:
        while self._next is not None or len(self._open) > self._shared:
            self._fill()
            cut = self._cut()
            taken = [self._open[number] for number in range(cut)]
            yield taken[0].start, taken[-1].end
            self._share(taken)

    def _fill(self) -> None:
        room = self._windowing.window - sum(piece.tokens for piece in self._open)
        while self._next is not None and (self._next.tokens <= room or len(self._open) == self._shared):
            while self._shared and self._next.tokens > room:
                room += self._open.popleft().tokens
                self._shared -= 1
            self._open.append(self._next)
            room -= self._next.tokens
            self._next = next(self._pieces, None)

    def _cut(self) -> int:
        """How many pieces the window has: up to the last paragraph in its second half, if it does not end the text."""
        pieces = list(self._open)
        cut = len(pieces)
        if self._next is not None:
            tokens, half = 0, self._windowing.window / 2
            for number, piece in enumerate(pieces, start=1):
                tokens += piece.tokens
                if piece.ends_paragraph and number > self._shared and tokens >= half:
                    cut = number
        while cut > 1 and self._is_too_long(pieces[0].start, pieces[cut - 1].end):  # pieces may join into more tokens
            if cut > self._shared + 1:
                cut -= 1
            else:
                pieces.pop(0)
                self._open.popleft()
                self._shared -= 1
                cut -= 1
        return cut

    def _is_too_long(self, start: int, end: int) -> bool:
        return self._counter.fits(self._text[start:end], self._windowing.window) is None

    def _share(self, taken: list[_Piece]) -> None:
        """Keep what the next window shares with this one, which is never all of it."""
        left, kept = self._windowing.overlap, 0
        for piece in reversed(taken[1:]):
            if piece.tokens > left:
                break
            left -= piece.tokens
            kept += 1
        for _ in range(len(taken) - kept):
            self._open.popleft()
        self._shared = kept
        following = self._open[kept].tokens if len(self._open) > kept else 0
        while self._shared and sum(self._open[n].tokens for n in range(self._shared)) + following > (
            self._windowing.window
        ):
            self._open.popleft()
            self._shared -= 1


def _pieces_of(text: str, counter: TokenCounter, most: int) -> Iterator[_Piece]:
    start = 0
    for found in _SENTENCE.finditer(text):
        yield from _fitting(text, start, found.end(), counter, most, ends_paragraph=found[0].count("\n") > 1)
        start = found.end()
    if start < len(text):
        yield from _fitting(text, start, len(text), counter, most, ends_paragraph=True)


def _fitting(
    text: str, start: int, end: int, counter: TokenCounter, most: int, *, ends_paragraph: bool
) -> Iterator[_Piece]:
    """The piece, or the parts of one that has too many tokens. A single character is a piece however many it has."""
    tokens = counter.fits(text[start:end], most)
    if tokens is None:
        parts = list(_parts(text, start, end))
        if len(parts) > 1:
            for first, last in parts:
                is_last = ends_paragraph and last == end
                yield from _fitting(text, first, last, counter, most, ends_paragraph=is_last)
            return
        tokens = most
    yield _Piece(start, end, tokens, ends_paragraph)


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The words, or the halves of a single one."""
    words = [(one.start(), one.end()) for one in _WORD.finditer(text, start, end)]
    if len(words) > 1:
        yield from words
        return
    letters = [one.start() for one in _GRAPHEME.finditer(text, start, end)]
    middle = letters[len(letters) // 2]
    yield from [(start, middle), (middle, end)] if middle > start else [(start, end)]
