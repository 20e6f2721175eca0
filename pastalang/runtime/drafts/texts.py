"""Where the last tokens of a value stand in what its branch sees, and what follows them there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pastalang.runtime.constraints.vocabulary import Vocabulary
from pastalang.runtime.scheduler.state import BranchState, Seen

LONGEST = 4  # tokens of a match that are compared
_LOOKED_AT = 16  # places of a token that are compared, the last ones first
_MATCHES = 2  # that go on differently


class Match(NamedTuple):
    """`length` tokens stand there, and `following` after them."""

    length: int
    following: Sequence[int]


class Texts:
    """An index of the tokens of every branch that is looked at."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._words = _words(vocabulary)
        self._places: WeakKeyDictionary[BranchState, _Places] = WeakKeyDictionary()

    def matches(self, branch: BranchState, value: Sequence[int], depth: int) -> list[Match]:
        """The longest matches that go on differently, with up to `depth` tokens that follow.

        Of matches that are equally long, the last one: documents stand at the end of a prompt.
        """
        words = [self._words[token] for token in value[-LONGEST:]]
        if not any(word >= 0 for word in words):
            return []
        best: dict[int, Match] = {}  # by the word that follows
        for match in self._all(branch, words, depth):
            known = best.get(word := self._words[match.following[0]])
            if known is None or known.length < match.length:
                best[word] = match
        return sorted(best.values(), key=lambda match: -match.length)[:_MATCHES]

    def _all(self, branch: BranchState, value: Sequence[int], depth: int) -> Iterator[Match]:
        sequence = branch.sequence
        for seen in (Seen(branch, len(sequence.tokens) - 1), *reversed(sequence.view)):
            tokens = seen.branch.sequence.tokens
            for place in self._places_in(seen, value[-1]):
                length = 1
                while (
                    length < len(value)
                    and length <= place
                    and self._words[tokens[place - length]] == value[-1 - length]
                ):
                    length += 1
                if any(word >= 0 for word in value[len(value) - length :]):
                    yield Match(length, tokens[place + 1 : min(seen.length, place + 1 + depth)])

    def _places_in(self, seen: Seen, word: int) -> Iterator[int]:
        """Where a word stands in the tokens seen of a branch, the last place first; a token has to follow."""
        places = self._places.get(seen.branch)
        if places is None:
            places = self._places[seen.branch] = _Places()
        places.read(seen.branch.sequence.tokens, self._words)
        looked_at = 0
        for place in reversed(places.of.get(word, ())):
            if place < seen.length - 1:
                yield place
                looked_at += 1
                if looked_at == _LOOKED_AT:
                    return


class _Places:
    """Where each word stands in the tokens of a branch, as far as they have been read."""

    def __init__(self) -> None:
        self.of: defaultdict[int, list[int]] = defaultdict(list)
        self._read = 0

    def read(self, tokens: Sequence[int], words: Sequence[int]) -> None:
        for place in range(self._read, len(tokens)):
            self.of[words[tokens[place]]].append(place)
        self._read = len(tokens)


def _words(vocabulary: Vocabulary) -> list[int]:
    """A number for each token: the same with and without a space before it. Below 0 for tokens without a letter or
    digit, whose matches say little."""
    numbers: dict[bytes, int] = {}
    words = []
    for token, text in enumerate(vocabulary.spelling):
        bare = (text or b"").lstrip(b" ")
        is_word = any(byte >= 128 or chr(byte).isalnum() for byte in bare)
        words.append(numbers.setdefault(bare, token) if is_word else -1 - token)
    return words
