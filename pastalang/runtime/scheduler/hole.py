"""What a branch decides token by token while it writes: the value of a hole, or which of several texts comes next.

A choice between texts:

    options   [A B C]  [A D]  (end)      the common tokens are forced, the rest is drawn
    after A   B or D                     one draw; the forced C follows in the same pass

An option that is the beginning of another one ends when the model draws anything but the longer option's next token.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pastalang.plan.branches import Hole
from pastalang.plan.machine import Draw
from pastalang.plan.plan import Plan
from pastalang.runtime.constraints.guide import Accepted, GuideError, State, TokenMask
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import DeadEnd
from pastalang.runtime.scheduler.known_text import option_tokens
from pastalang.runtime.scheduler.transcript import Details, Field, FieldDecoding


@dataclass(frozen=True, slots=True)
class Fill:
    """`feed` are tokens for the branch, the sampled one first if it `is_kept`."""

    feed: tuple[int, ...]
    text: str
    is_kept: bool


@contextmanager
def field_errors(hole: Hole, plan: Plan, items: tuple[int, ...]) -> Iterator[None]:
    """Turns an error of a guide into an error of the field: a type that cannot be enforced, a value without an end."""
    try:
        yield
    except GuideError as problem:
        raise DeadEnd(str(problem), plan=plan, field=hole.field, items=items, span=hole.span) from problem


class OpenHole:
    def __init__(self, hole: Hole, field: Field, state: State, encoder: Encoder) -> None:
        self.hole = hole
        self.field = field
        self._state = state
        self._encoder = encoder
        self.lead = state.lead

    @property
    def is_finished(self) -> bool:
        return self._state.is_finished

    @property
    def state(self) -> State:
        return self._state

    def allowed(self) -> TokenMask:
        return self._state.allowed()

    def start(self) -> Fill:
        """The tokens that the type forces before the first sample."""
        feed, text = self._ride()
        return Fill(feed, text, is_kept=True)

    def take(self, token: int, log_probability: float) -> Fill:
        """Accept a sampled token, and everything that the type then forces."""
        self.field.decoding.draws += 1
        accepted = self._state.advance(token)
        self._note(token, log_probability)
        if accepted.kept:
            ride, text = self._ride()
            return Fill((token, *ride), accepted.text + text, is_kept=True)
        rest = self._written(accepted)
        self.field.decoding.dropped = True
        return Fill(rest, accepted.text, is_kept=False)

    def copy_for_probe(self) -> OpenHole:
        """A copy for a probe. Its field is not part of the answer; the copies share the weights of their options."""
        known = self.field.decoding
        details = Details() if known.details is None else Details(weights=known.details.weights)
        decoding = FieldDecoding(known.limit, list(known.tokens), details=details)
        return OpenHole(self.hole, replace(self.field, decoding=decoding), self._state.fork(), self._encoder)

    def close(self) -> None:
        self.field.text = self._state.text
        self.field.truncated = self._state.truncated
        self.field.is_done = True

    def _ride(self) -> tuple[tuple[int, ...], str]:
        fed: list[int] = []
        text = ""
        while not self._state.is_finished and (forced := self._state.forced()):
            for token in forced:
                accepted = self._state.advance(token)
                self._note(token, 0.0)
                text += accepted.text
                # A forced token that reaches beyond the value is not fed; its part of the value is encoded anew.
                fed += [token] if accepted.kept else list(self._written(accepted))
                if accepted.finished:
                    break
        return tuple(fed), text

    def _written(self, accepted: Accepted) -> tuple[int, ...]:
        """The tokens for the part of a sampled token that belongs to the value."""
        text = accepted.lead + accepted.text
        return self._encoder.text(text) if text else ()

    def _note(self, token: int, log_probability: float) -> None:
        decoding = self.field.decoding
        decoding.tokens.append(token)
        decoding.log_probabilities.append(log_probability)


@dataclass(frozen=True, slots=True)
class Taken:
    """The effect of one token: the tokens to feed, and the option once it is known."""

    feed: tuple[int, ...]
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
        return Taken((), (by_end or complete)[0])

    def _forced(self, drawn: tuple[int, ...]) -> Taken:
        feed = list(drawn)
        while True:
            steps = {self._next(option) for option in self._alive}
            if len(steps) != 1 or (step := steps.pop()) is None:
                break
            feed.append(step)
            self._depth += 1
        return Taken(tuple(feed), self._alive[0] if len(self._alive) == 1 else None)

    def _next(self, option: int) -> int | None:
        tokens = self._options[option]
        return None if tokens is None or self._depth >= len(tokens) else tokens[self._depth]

    def _is_complete(self, option: int) -> bool:
        tokens = self._options[option]
        return tokens is not None and self._depth >= len(tokens)
