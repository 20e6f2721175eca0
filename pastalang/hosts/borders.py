"""Where the tokens of a server most likely end, whose tokenizer is not here.

Nearly all tokenizers write a space together with the letter, quote or bracket behind it, and keep it apart from a
digit.
"""

from __future__ import annotations

import re
from typing import Final

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
