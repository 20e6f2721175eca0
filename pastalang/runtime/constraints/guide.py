"""The protocols of guides and machines. A guide constrains a type; each hole has a state of its own.

    Guide (compiled once per type, tokenizer and seam) ── start() ──> State
    State: allowed() -> mask, advance(token), is_finished, forced(), fork()

A guide constrains the *value's text as decoded* (JSON spelling in a JSON hole, plain text in running text). A machine
recognises one kind of value byte by byte; `machine_guide` turns it into a guide.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

TokenMask = NDArray[np.uint32]  # ceil(vocabulary / 32) words; bit t of word t // 32 allows token t


class GuideError(ValueError):
    """The type cannot be enforced. The message gives the reason in terms of the user's program."""


class NoEndingFits(GuideError):
    """No value of the type can be written within the limit."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The effect of taking a token: `text` is what it added to the value, `kept` whether the token itself is fed.

    A token that crosses the seam to the text that follows is not fed: `kept` is False, `text` is the part of the token
    before the seam, and the runtime feeds that part as forced text if a later token sees it. The same holds for the
    end of the model's turn. Where the limit ends the value, `kept` is False and `text` is what closes the value.
    `State.text` may become shorter again: a stop text that spans several tokens is removed from it.
    `lead` is the token's part of the white space before the value: it is fed and does not belong to the value.
    """

    text: str
    kept: bool
    finished: bool
    lead: str = ""


class State(Protocol):
    """The progress of one hole. `remaining` tokens are left of its limit."""

    def allowed(self) -> TokenMask:
        """The tokens after which the value can still be completed within the limit; never empty before the end.

        The array is read-only and shared by holes in the same state, so results may be cached by its identity.
        """
        ...

    def advance(self, token: int) -> Accepted: ...

    def forced(self) -> tuple[int, ...]:
        """The tokens that must come next, if there is only one continuation. They count against the limit."""
        ...

    @property
    def is_finished(self) -> bool: ...

    @property
    def text(self) -> str:
        """The value's text so far."""
        ...

    @property
    def lead(self) -> str:
        """White space before the value that is sampled together with it."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether the limit, not the model, ended the value."""
        ...

    @property
    def remaining(self) -> int: ...

    def fork(self) -> State: ...


class Guide(Protocol):
    """The compiled constraint of a type; `start` is cheap."""

    def after(self, space: str) -> Guide:
        """The guide of the same values after white space that is sampled with them."""
        ...

    def start(self, *, max_tokens: int) -> State:
        """Raises `NoEndingFits` if no value fits into the limit."""
        ...

    @property
    def shortest(self) -> int:
        """The number of tokens of a short valid value: no limit may be lower."""
        ...


# ── the progress of a value ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A value after some tokens. `end` is set when it has ended: the first `end` bytes of `raw` are the value.

    `rest` is the part of the white space before the value that is not written yet.
    """

    raw: bytes
    remaining: int
    rest: bytes = b""
    end: int | None = None
    truncated: bool = False

    @property
    def text(self) -> str:
        return self.raw[: self.end].decode("utf-8", "ignore")


P = TypeVar("P", bound=Position)


class PositionedState(Generic[P]):
    """The part of a `State` that all engines share: the position."""

    def __init__(self, position: P, lead: str) -> None:
        self._position = position
        self.lead = lead

    @property
    def is_finished(self) -> bool:
        return self._position.end is not None

    @property
    def truncated(self) -> bool:
        return self._position.truncated

    @property
    def remaining(self) -> int:
        return self._position.remaining

    @property
    def text(self) -> str:
        return self._position.text

    def _move(self, position: P) -> None:
        self._position = position

    def _take_lead(self, piece: bytes | None) -> Accepted | None:
        """Take a token that is white space before the value and nothing else; None if it is no such token."""
        position = self._position
        if piece is None or not position.rest.startswith(piece):
            return None
        after = replace(position, rest=position.rest[len(piece) :], remaining=position.remaining - 1)
        self._move(after)
        return Accepted("", True, False, piece.decode())

    def _accept(self, position: P, kept: bool) -> Accepted:
        """Go on to the position after a token."""
        before = self._position
        self._move(position)
        return Accepted(position.text[len(before.text) :], kept, position.end is not None, before.rest.decode())


# ── machines ───────────────────────────────────────────────────────────────────────────────────────────────


MachineState = Hashable
M = TypeVar("M", bound=MachineState)


class MachineOf(Protocol[M]):
    """Recognises the spellings of a value, prepared for one vocabulary and one text after the value. Its states are
    values of its own type; only those of this machine may be given back to it."""

    @property
    def start(self) -> M: ...

    def step(self, state: M, byte: int) -> M | None:
        """The state after this byte; None if no spelling continues with it."""
        ...

    def accepts(self, state: M) -> bool:
        """Whether the value may end here."""
        ...

    def can_continue(self, state: M) -> bool:
        """Whether another byte may follow."""
        ...

    def stop_bytes(self, state: M) -> int:
        """The number of final bytes that belong to a stop text and not to the value."""
        ...

    def mask(self, state: M, remaining: int | None) -> TokenMask:
        """The tokens after which an ending fits into the rest of `remaining` tokens; None: an ending of any length.

        It contains the tokens that cross the seam, but not the end of the model's turn.
        """
        ...

    def ending(self, state: M) -> tuple[int, ...] | None:
        """A few tokens that complete the value; None if the vocabulary cannot spell an ending."""
        ...

    def forced(self, state: M) -> bytes:
        """The bytes that must come next."""
        ...


Machine: TypeAlias = MachineOf[Any]
