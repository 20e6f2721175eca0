"""A hole being filled: drawn tokens come in; what is fed of them, and the text they add, go out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pastalang.plan.plan import Hole, Plan
from pastalang.runtime.chat import Encoder
from pastalang.runtime.decode.guide import Accepted, GuideError, State, TokenMask
from pastalang.runtime.decode.lead import Led
from pastalang.runtime.errors import DeadEnd
from pastalang.runtime.scheduler.transcript import Details, Field, Tally


@dataclass(frozen=True, slots=True)
class Fill:
    """`feed`: tokens for the branch, the drawn one first if it `is_kept`."""

    feed: tuple[int, ...]
    text: str
    is_kept: bool


@contextmanager
def field_errors(hole: Hole, plan: Plan) -> Iterator[None]:
    """A type that cannot be enforced, or a value that cannot be closed, is an error of its field."""
    try:
        yield
    except GuideError as problem:
        raise DeadEnd(str(problem), plan=plan, field=hole.field, span=hole.span) from problem


class OpenHole:
    def __init__(self, hole: Hole, field: Field, state: State, encoder: Encoder) -> None:
        self.hole = hole
        self.field = field
        self._state = state
        self._encoder = encoder
        self.lead = state.lead if isinstance(state, Led) else ""  # white space that is drawn with the value

    @property
    def is_finished(self) -> bool:
        return self._state.is_finished

    @property
    def state(self) -> State:
        return self._state

    def allowed(self) -> TokenMask:
        return self._state.allowed()

    def start(self) -> Fill:
        """What the type forces before anything is drawn."""
        feed, text = self._ride()
        return Fill(feed, text, is_kept=True)

    def take(self, token: int, log_probability: float) -> Fill:
        """A drawn token, and all that its type leaves no choice about behind it."""
        tally = self.field.tally
        tally.draw()
        accepted = self._state.advance(token)
        self._note(token, log_probability)
        if accepted.kept:
            ride, text = self._ride()
            return Fill((token, *ride), accepted.text + text, is_kept=True)
        rest = self._written(accepted)
        tally.dropped = True
        tally.force(len(rest))
        return Fill(rest, accepted.text, is_kept=False)

    def beside(self) -> OpenHole:
        """One that stands where this one does and goes its own way: its field is no part of the answer, and only what
        its options weigh is noted with those of this one."""
        known = self.field.details
        details = Details() if known is None else Details(weights=known.weights)
        field = replace(
            self.field, tokens=list(self.field.tokens), log_probabilities=[], tally=Tally(), details=details
        )
        return OpenHole(self.hole, field, self._state.fork(), self._encoder)

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
                # A forced token that ends the value from outside is not fed; what it adds is spelled anew.
                fed += [token] if accepted.kept else list(self._written(accepted))
                if accepted.finished:
                    break
        self.field.tally.force(len(fed))
        return tuple(fed), text

    def _written(self, accepted: Accepted) -> tuple[int, ...]:
        """What is kept of a token that is not fed as it is."""
        text = accepted.lead + accepted.text
        return self._encoder.text(text) if text else ()

    def _note(self, token: int, log_probability: float) -> None:
        self.field.tokens.append(token)
        self.field.log_probabilities.append(log_probability)
