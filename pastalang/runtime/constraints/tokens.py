"""A vocabulary with the lookups that guides need: its trie, token ids by text, and the fewest tokens for a text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.trie import Ints, TokenTrie, build_trie
from pastalang.runtime.constraints.vocabulary import Vocabulary

T = TypeVar("T")

MAX_RECENT = 2_000  # masks of a 128k vocabulary take 16 kB each
_MAX_KNOWN, _MAX_KNOWN_BYTES = 4_096, 128  # texts whose tokens are remembered, and how long they are


@dataclass(frozen=True)
class Tokens:
    """One per vocabulary, shared by all its guides. `kept` and `recent` cache what several guides need."""

    vocabulary: Vocabulary
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)
    recent: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        return self.vocabulary.size

    @cached_property
    def trie(self) -> TokenTrie:
        return build_trie(self.vocabulary)

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The lowest token id for each text."""
        spelled = enumerate(self.vocabulary.spelling)
        return {text: id for id, text in reversed(list(spelled)) if text}

    @cached_property
    def by_text(self) -> dict[bytes, tuple[int, ...]]:
        """All tokens of each text: in some vocabularies a letter is both a token and a byte token."""
        found: dict[bytes, tuple[int, ...]] = {}
        for id, text in enumerate(self.vocabulary.spelling):
            if text:
                found[text] = (*found.get(text, ()), id)
        return found

    @staticmethod
    def node(node: int) -> Ints:
        return np.array([node], dtype=np.int64)

    @cached_property
    def longest(self) -> int:
        return max((len(text) for text in self.ids), default=0)

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self.ids)

    def begins_some(self, text: bytes) -> bool:
        """Whether a longer token begins with the text."""
        at = bisect_right(self._sorted, text)
        return at < len(self._sorted) and self._sorted[at].startswith(text)

    def contains(self, text: bytes) -> bool:
        """Whether a token contains the text. Texts with a byte that is never in UTF-8 may be taken for contained."""
        return text in self._joined

    @cached_property
    def _joined(self) -> bytes:
        return b"\xff".join(self.ids)

    def text(self, token: int) -> bytes | None:
        return self.vocabulary.spelling[token]

    def shortest(self, text: bytes) -> tuple[int, ...] | None:
        """The fewest tokens that spell the text; None if no tokens do."""
        if len(text) > _MAX_KNOWN_BYTES:
            return _shortest(text, self.ids, self.longest)
        return self._spelled.cached(text, lambda: _shortest(text, self.ids, self.longest))

    @cached_property
    def _spelled(self) -> BoundedCache[bytes, tuple[int, ...] | None]:
        """The tokens of short texts: guides look up the same keys and endings many times."""
        return BoundedCache(_MAX_KNOWN)

    def canonical(self, text: bytes) -> tuple[int, ...] | None:
        """The tokenizer's own tokens for the text, or the fewest tokens if those contain control tokens."""
        encode = self.vocabulary.encode
        if encode is not None:
            try:
                found = tuple(encode(text.decode("utf-8")))
            except UnicodeDecodeError:
                return self.shortest(text)
            spelled = [self.vocabulary.spelling[token] for token in found]
            if b"".join(part or b"" for part in spelled) == text and None not in spelled:
                return found
        return self.shortest(text)

    def cached_recent(self, key: object, make: Callable[[], T]) -> T:
        """The result of `make`, cached by its key; the oldest results are dropped first."""
        if key not in self.recent:
            if len(self.recent) >= MAX_RECENT:
                self.recent.pop(next(iter(self.recent)), None)
            self.recent[key] = make()
        found: T = self.recent[key]
        return found

    def cached(self, key: object, make: Callable[[], T]) -> T:
        """The result of `make`, cached by its key for ever."""
        if key not in self.kept:
            self.kept[key] = make()
        found: T = self.kept[key]
        return found


def _shortest(text: bytes, ids: dict[bytes, int], longest: int) -> tuple[int, ...] | None:
    """See `Tokens.shortest`: the best choice from each position, found from the end of the text."""
    best: list[tuple[int, int, int] | None] = [None] * len(text) + [(0, 0, 0)]  # tokens left, this one, its length
    for start in range(len(text) - 1, -1, -1):
        for end in range(min(len(text), start + longest), start, -1):
            rest = best[end]
            if rest is None or ((mine := best[start]) is not None and mine[0] <= rest[0] + 1):
                continue
            if (token := ids.get(text[start:end])) is not None:
                best[start] = (rest[0] + 1, token, end - start)
    tokens, at = [], 0
    while at < len(text):
        step = best[at]
        if step is None:
            return None
        tokens.append(step[1])
        at += step[2]
    return tuple(tokens)
