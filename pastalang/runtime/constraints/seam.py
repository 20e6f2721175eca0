"""The seam between a value and the text after its hole. One token may cross it: end the value and begin that text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import mask_of
from pastalang.runtime.constraints.tokens import ROOT, Ints, Tokens, ranges

_BEYOND = "\0"  # in place of text that no token reaches


def reached(follow: str, tokens: Tokens) -> str:
    """The beginning of `follow` that a single token may contain, and a mark if it is not all of it.

    A value whose end is certain has the same guide before either text, so fields that differ in the name of the next
    one share a guide.
    """
    for end in range(1, len(follow) + 1):
        if not tokens.contains(follow[:end].encode()):
            marked = follow[: end - 1] + _BEYOND
            is_free = follow[end - 1].isascii() and not tokens.contains(marked.encode())
            return marked if is_free else follow[:end]  # a part of a character may be in a token
    return follow


@dataclass(frozen=True)
class Seam:
    """`follow` is the text after the value. It is empty at the end of the answer: there the turn ends the value."""

    tokens: Tokens
    follow: bytes

    def agrees(self, rest: bytes) -> bool:
        """Whether a token's bytes after the value are compatible with the text that follows."""
        return bool(self.follow) and (rest.startswith(self.follow) or self.follow.startswith(rest))

    @cached_property
    def mask(self) -> TokenMask:
        """The tokens that may come directly after the value."""
        if not self.follow:
            return mask_of(self.tokens.size, sorted(self.tokens.vocabulary.ends))
        return mask_of(self.tokens.size, self.tokens_after(np.array([ROOT])))

    def tokens_after(self, nodes: Ints) -> Ints:
        """The tokens below these nodes whose bytes after the node agree with the following text."""
        return self.tokens_after_each(nodes)[0]

    def tokens_after_each(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The same tokens, and the index in `nodes` of each token's node."""
        trie, place = self.tokens.trie, np.arange(len(nodes))
        found: list[Ints] = [np.zeros(0, dtype=np.int64)]
        places: list[Ints] = [np.zeros(0, dtype=np.int64)]
        for at, byte in enumerate(self.follow):
            nodes, alive = trie.children_by(nodes, byte)
            place = place[alive]
            if not len(nodes):
                break
            if at + 1 == len(self.follow):
                low, high = trie.low[nodes], trie.high[nodes]
                found.append(trie.order[ranges(low, high)])
                places.append(np.repeat(place, high - low))
            else:
                tokens, owner = trie.ending_at(nodes)
                found.append(tokens)
                places.append(place[owner])
        return np.concatenate(found), np.concatenate(places)
