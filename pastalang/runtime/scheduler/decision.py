"""A choice between texts, decided token by token.

    options   [A B C]  [A D]  (end)      the common tokens are forced, the rest is drawn
    after A   B or D                     one draw; the forced C follows in the same pass

An option that is the beginning of another one ends when the model draws anything but the longer option's next token.
"""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.plan.branches import Hole
from pastalang.plan.machine import Draw
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.scheduler.known_text import option_tokens


@dataclass(frozen=True, slots=True)
class Taken:
    """The effect of one token: the tokens to feed, and the option once it is known."""

    feed: tuple[int, ...]
    forced: int  # how many of `feed` were not sampled: all but the first, or all
    option: int | None


class Decision:
    """A place in the tree of the options. `field` and `span` are for messages."""

    def __init__(self, draw: Draw, encoder: Encoder) -> None:
        assert not isinstance(draw.segment, Hole), "a hole is filled"
        self.draw = draw
        self.field = draw.segment.field
        self.sampling = draw.segment.sampling
        self.span = draw.segment.span
        self._ends = encoder.ends
        self._options = tuple(option_tokens(option, encoder) for option in draw.options)  # None: the end of the turn
        self._alive = list(range(len(self._options)))
        self._depth = 0

    @property
    def depth(self) -> int:
        """How many tokens of the options are written."""
        return self._depth

    def start(self) -> Taken:
        """The tokens that all options have in common."""
        return self._forced(())

    def allowed(self) -> frozenset[int] | None:
        """The tokens to sample from; None: every token."""
        if any(self._is_complete(option) for option in self._alive):
            return None
        tokens: set[int] = set()
        for option in self._alive:
            spelled = self._options[option]
            tokens |= self._ends if spelled is None else {spelled[self._depth]}
        return frozenset(tokens)

    def take(self, token: int) -> Taken:
        """Accept a sampled token. `feed` is empty if it is not fed."""
        going_on = [option for option in self._alive if self._next(option) == token]
        if not going_on:
            return self._ended(token)
        self._alive = going_on
        self._depth += 1
        return self._forced((token,))

    def _ended(self, token: int) -> Taken:
        """The token ends an option: it ends the turn, or does not continue a longer option."""
        by_end = [option for option in self._alive if self._options[option] is None and token in self._ends]
        complete = [option for option in self._alive if self._is_complete(option)]
        return Taken((), 0, (by_end or complete)[0])

    def _forced(self, drawn: tuple[int, ...]) -> Taken:
        feed = list(drawn)
        while True:
            steps = {self._next(option) for option in self._alive}
            if len(steps) != 1 or (step := steps.pop()) is None:
                break
            feed.append(step)
            self._depth += 1
        chosen = self._alive[0] if len(self._alive) == 1 else None
        return Taken(tuple(feed), len(feed) - len(drawn), chosen)

    def _next(self, option: int) -> int | None:
        tokens = self._options[option]
        return None if tokens is None or self._depth >= len(tokens) else tokens[self._depth]

    def _is_complete(self, option: int) -> bool:
        tokens = self._options[option]
        return tokens is not None and self._depth >= len(tokens)
