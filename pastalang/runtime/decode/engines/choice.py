"""A closed list of spellings, however long: where the list stands is a range of its sorted order.

Ten thousand options cost a sort. Nothing is ever made for all prefixes; the tokens of a state are looked up from
the texts that are left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from pastalang.runtime.decode.border import Border
from pastalang.runtime.decode.guide import GuideError, TokenMask
from pastalang.runtime.decode.machine import MachineState
from pastalang.runtime.decode.mask import mask_of
from pastalang.runtime.decode.tokens import Tokens

_MAX_MASKS = 512


class Range(NamedTuple):
    """`options[low:high]` begin with the same `depth` bytes, which are written."""

    low: int
    high: int
    depth: int


class ChoiceMachine:
    """See `machine.Machine`."""

    def __init__(self, options: Iterable[bytes], border: Border) -> None:
        self.options = sorted(set(options))
        self._border = border
        self._tokens: Tokens = border.tokens
        if not border.tokens.vocabulary.covers_bytes:
            self.options = [option for option in self.options if self._tokens.shortest(option) is not None]
        if not self.options:
            raise GuideError("there is nothing to choose from")
        self.start: MachineState = Range(0, len(self.options), 0)
        self._masks: dict[tuple[Range, int | None], TokenMask] = {}
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
        """Of the shortest options that are left, the one with the fewest tokens."""
        low, high, depth = _range(state)
        rest = sorted((option[depth:] for option in self.options[low:high]), key=len)[:8]
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
        if remaining is not None and self._longest_left(here) < remaining:
            remaining = None
        key = (here, remaining)
        if key not in self._masks:
            if len(self._masks) >= _MAX_MASKS:
                self._masks.clear()
            self._masks[key] = mask_of(self._tokens.size, sorted(self._allowed(here, remaining)))
        return self._masks[key]

    def options_after(self, state: MachineState, token: int) -> Range | None:
        """The options that are left when this token is taken; of those that end inside it, the range of the one."""
        text = self._tokens.text(token)
        if text is None:
            return None
        here: MachineState = state
        for at, byte in enumerate(text):
            following = self.step(here, byte)
            if following is None:
                low, _, depth = _range(here)
                agrees = self.accepts(here) and self._border.agrees(text[at:])
                return Range(low, low + 1, depth) if agrees else None
            here = following
        return _range(here)

    def _longest_left(self, here: Range) -> int:
        if here.high - here.low > 64:
            return self._longest - here.depth
        return max(len(option) for option in self.options[here.low : here.high]) - here.depth

    def _allowed(self, here: Range, remaining: int | None) -> set[int]:
        found: set[int] = set()
        before = b""
        for option in self.options[here.low : here.high]:
            rest = option[here.depth :]
            same = _shared(before, rest)
            before = rest
            shortest = None if remaining is None else self._tokens.shortest(rest)
            if remaining is not None and (shortest is None or len(shortest) > remaining):
                before = b""
                continue
            # what the option before it begins with too, is known already; under a limit nothing is taken over
            first = 1 if remaining is not None else same + 1
            for length in range(first, min(len(rest), self._tokens.longest) + 1):
                for token in self._tokens.by_text.get(rest[:length], ()):
                    if remaining is None or self._fits(rest[length:], remaining - 1):
                        found.add(token)
            found.update(self._crossing(rest))
        return found

    def _fits(self, rest: bytes, remaining: int) -> bool:
        if len(rest) <= remaining and self._tokens.vocabulary.covers_bytes:
            return True
        tokens = self._tokens.shortest(rest)
        return tokens is not None and len(tokens) <= remaining

    def _crossing(self, rest: bytes) -> Iterable[int]:
        """Tokens that hold all that is left and the beginning of what follows."""
        if not self._border.follow or not rest or not self._tokens.begins_some(rest):
            return ()
        node = self._tokens.trie.find(rest)
        return () if node < 0 else self._border.behind(self._tokens.node(node)).tolist()


def _range(state: MachineState) -> Range:
    assert isinstance(state, Range)
    return state


def _shared(first: bytes, second: bytes) -> int:
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length
