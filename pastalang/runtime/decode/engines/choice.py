"""A closed list of spellings, however long: where the list stands is a range of its sorted order.

Ten thousand options cost a sort. Nothing is ever made for all prefixes; the tokens of a state are looked up from
the texts that are left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.guide import GuideError, MachineState, TokenMask
from pastalang.runtime.constraints.masks import mask_of, mask_of_many
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints
from pastalang.runtime.decode.engines.options import NEVER, Flags, OptionList

_MAX_MASKS = 512
_FEW = 8  # options that are all spelled out to find the one with the fewest tokens


class Range(NamedTuple):
    """`options[low:high]` begin with the same `depth` bytes, which are written."""

    low: int
    high: int
    depth: int


class ChoiceMachine:
    """See `guide.Machine`."""

    def __init__(self, options: Iterable[bytes], seam: Seam) -> None:
        self.options = sorted(set(options))
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        if not seam.tokens.vocabulary.covers_bytes:
            self.options = [option for option in self.options if self._tokens.shortest(option) is not None]
        if not self.options:
            raise GuideError("there is nothing to choose from")
        self.start: MachineState = Range(0, len(self.options), 0)
        self._list = OptionList(self.options)
        self._masks: BoundedCache[tuple[Range, int | None], TokenMask] = BoundedCache(_MAX_MASKS)
        self._longest = max(map(len, self.options))

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        low, high, depth = _range(state)
        prefix = self.options[low][:depth]
        first = bisect_left(self.options, prefix + bytes((byte,)), low, high)
        last = high if byte == 255 else bisect_left(self.options, prefix + bytes((byte + 1,)), low, high)
        return Range(first, last, depth + 1) if first < last else None

    def accepts(self, state: MachineState) -> bool:
        low, _, depth = _range(state)
        return len(self.options[low]) == depth

    def goes_on(self, state: MachineState) -> bool:
        low, high, depth = _range(state)
        return high - low > 1 or len(self.options[low]) > depth

    def trimmed(self, state: MachineState) -> int:
        return 0

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        """The option that is left with the fewest tokens; where many are left, the best of the shortest."""
        here = _range(state)
        low, high, depth = here
        if high - low > _FEW and self._list.is_weighed:
            return self._list.shortest(self._tokens.trie, here)
        near = np.argsort(self._list.lengths[low:high], kind="stable")[:_FEW] + low
        rest = [self.options[at][depth:] for at in near.tolist()]
        found = [tokens for text in rest if (tokens := self._tokens.shortest(text)) is not None]
        return min(found, key=len, default=None)

    def forced(self, state: MachineState) -> bytes:
        low, high, depth = _range(state)
        first, last = self.options[low], self.options[high - 1]
        end = depth
        while end < min(len(first), len(last)) and first[end] == last[end]:
            end += 1
        return first[depth:end]

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        here = _range(state)
        if remaining is not None and self._longest - here.depth < remaining:
            remaining = None
        key = (here, remaining)
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = self._make_mask(here, remaining)
        return found

    def warm(self) -> None:
        if len(self.options) > _FEW:
            self._list.prepare()
        self.mask(self.start, None)

    def _make_mask(self, here: Range, remaining: int | None) -> TokenMask:
        """Leads the beginnings of what is left down the trie of the tokens, level by level."""
        covers = self._tokens.vocabulary.covers_bytes
        if remaining is None and covers and here.high - here.low <= _FEW:
            return mask_of(self._tokens.size, sorted(self._spelled_out(here)))
        if remaining is None and covers:
            common, inside = self._shared_by_all(here)
        else:
            common, inside = b"", []
        trie, start = self._tokens.trie, Range(here.low, here.high, here.depth + len(common))
        nodes, at = self._list.followed(trie, start, trie.find(common))
        is_plenty = remaining is None and covers
        inner = at if is_plenty else at[self._fits(nodes, NEVER - 1 if remaining is None else remaining - 1)]
        whole = at[self._list.ends_at(nodes)]
        found = [*inside, trie.ending_at(inner)[0]]
        if len(whole):
            found.append(self._seam.behind(whole))
        return mask_of_many(self._tokens.size, np.concatenate(found))

    def _shared_by_all(self, here: Range) -> tuple[bytes, list[Ints]]:
        """What all options go on with, but for its last byte, so that none ends in it; and the tokens within it."""
        common = self.forced(here)[:-1]
        tokens = [token for end in range(1, len(common) + 1) for token in self._tokens.by_text.get(common[:end], ())]
        return common, [np.array(tokens, dtype=np.int64)]

    def _spelled_out(self, here: Range) -> set[int]:
        """All tokens that one of a few options begins with, or ends in."""
        found: set[int] = set()
        for option in self.options[here.low : here.high]:
            rest = option[here.depth :]
            for length in range(1, min(len(rest), self._tokens.longest) + 1):
                found.update(self._tokens.by_text.get(rest[:length], ()))
            if rest and self._seam.follow and self._tokens.begins_some(rest):
                node = self._tokens.trie.find(rest)
                if node >= 0:
                    found.update(self._seam.behind(self._tokens.node(node)).tolist())
        return found

    def _fits(self, nodes: Ints, left: int) -> Flags:
        """Whether some option below each of these beginnings can be completed with so many tokens."""
        short = self._list.fewest_bytes(nodes) <= left
        if self._tokens.vocabulary.covers_bytes and short.all():
            return short
        return self._list.fewest_tokens(self._tokens.trie, nodes) <= left

    def options_after(self, state: MachineState, token: int) -> Range | None:
        """The options that are left when this token is taken; of those that end inside it, the range of the one."""
        text = self._tokens.text(token)
        return None if text is None else self.options_behind(state, text)

    def options_behind(self, state: MachineState, text: bytes) -> Range | None:
        """As `options_after`, for what of a token belongs to the value."""
        here: MachineState = state
        for at, byte in enumerate(text):
            following = self.step(here, byte)
            if following is None:
                low, _, depth = _range(here)
                agrees = self.accepts(here) and self._seam.agrees(text[at:])
                return Range(low, low + 1, depth) if agrees else None
            here = following
        return _range(here)


def _range(state: MachineState) -> Range:
    assert isinstance(state, Range)
    return state
