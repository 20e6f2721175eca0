"""A hole while it is filled: accepts sampled tokens and says what is fed and which text they add."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pastalang.plan.branches import Hole
from pastalang.plan.plan import Plan
from pastalang.runtime.constraints.guide import Accepted, GuideError, State, TokenMask
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import DeadEnd
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
