"""A choice between texts, decided token by token.

    options   [A B C]  [A D]  (end)      the common tokens are forced, the rest is drawn
    after A   B or D                     one draw; the forced C follows in the same pass

An option that is the beginning of another one ends when the model draws anything but the longer option's next token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pastalang.plan.plan import Choose, ItemNumber, Repeat
from pastalang.program.types import Sampling
from pastalang.runtime.binding.spaced import fed_end, fed_text
from pastalang.runtime.encoder import Encoder
from pastalang.source import Span


@dataclass(frozen=True, slots=True)
class Option:
    """`tokens` spell the option. None: the end of the turn, which is sampled and never fed."""

    text: str
    tokens: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Taken:
    """The effect of one token: the tokens to feed, and the option once it is known."""

    feed: tuple[int, ...]
    forced: int  # how many of `feed` were not sampled: all but the first, or all
    option: int | None


class Decision:
    """A place in the tree of the options. `field` and `span` are for messages."""

    def __init__(
        self, options: Sequence[Option], *, ends: frozenset[int], field: str, sampling: Sampling, span: Span
    ) -> None:
        self.field = field
        self.sampling = sampling
        self.span = span
        self.text = ""
        self._ends = ends
        self._options = tuple(options)
        self._alive = list(range(len(options)))
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
            spelled = self._options[option].tokens
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
        by_end = [option for option in self._alive if self._options[option].tokens is None and token in self._ends]
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
        tokens = self._options[option].tokens
        return None if tokens is None or self._depth >= len(tokens) else tokens[self._depth]

    def _is_complete(self, option: int) -> bool:
        tokens = self._options[option].tokens
        return tokens is not None and self._depth >= len(tokens)


def arms_of(choose: Choose, encoder: Encoder) -> list[Option]:
    return [Option(arm.lead, encoder.text(fed_text(arm))) for arm in choose.arms]


def opening_of(repeat: Repeat, item: int, encoder: Encoder) -> Option:
    """How an item begins. Item numbers are encoded on their own, so that items look alike."""
    lead = repeat.between if item else repeat.first
    number = str(item + 1)
    text = "".join(number if isinstance(part, ItemNumber) else part.text for part in lead)
    fed = (number if isinstance(part, ItemNumber) else fed_text(part) for part in lead)
    return Option(text, tuple(token for part in fed for token in encoder.text(part)))


def closing_of(repeat: Repeat, done: int, encoder: Encoder) -> Option:
    """How the list ends after `done` items."""
    text = repeat.empty if done == 0 and repeat.empty is not None else repeat.stop
    fed = fed_end(repeat, is_empty=done == 0)
    return Option("", None) if text is None or fed is None else Option(text, encoder.text(fed))
