"""The protocols of guides and machines. A guide says which tokens a hole may take; one state belongs to one hole.

    Guide (compiled once per type, tokenizer and seam) ── start() ──> State
    State: allowed() -> mask, advance(token), is_finished, forced(), fork(), roll_back(n)

A guide speaks of the *value's text as decoded* (JSON spelling in a JSON hole, plain text in running text). A machine
knows one kind of value byte by byte; `machine_guide` makes a guide of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

TokenMask = NDArray[np.uint32]  # ceil(vocabulary / 32) words; bit t of word t // 32 allows token t


class GuideError(ValueError):
    """A type that cannot be enforced, with the reason in the user's words."""


class NoEndingFits(GuideError):
    """No value of the type can be written within the limit."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What taking a token did: `text` is what it added to the value, `kept` whether the token is fed as it is.

    A token that crosses the border to the text that follows is not fed: `kept` is False, `text` is the part
    of it before the border, and the runtime feeds that part as forced text if anybody will see it. The same
    holds for the end of the model's turn, and where the limit ends the value: `text` is then what closes it.
    `State.text` has the last word: a stop text that spans several tokens is taken back from it.
    `lead` is what the token holds of the white space before the value: it is fed and is no part of the value.
    """

    text: str
    kept: bool
    finished: bool
    lead: str = ""


class State(Protocol):
    """Where one hole stands. `remaining` tokens are left of its limit."""

    def allowed(self) -> TokenMask:
        """The tokens that keep the value completable within the limit; never empty before the end.

        Read-only, and the same array for holes that stand alike: what is made of it may be kept by identity.
        """
        ...

    def advance(self, token: int) -> Accepted: ...

    def forced(self) -> tuple[int, ...]:
        """The tokens that are the only way on from here (may be empty). They count against the limit."""
        ...

    @property
    def is_finished(self) -> bool: ...

    @property
    def text(self) -> str:
        """The value's text so far."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether the limit, not the model, ended the value."""
        ...

    @property
    def remaining(self) -> int: ...

    def mask_without_limit(self) -> TokenMask:
        """What would be allowed without the limit: for confidence, never for sampling."""
        ...

    def fork(self) -> State: ...

    def roll_back(self, tokens: int) -> None: ...


class Guide(Protocol):
    """A compiled constraint; `start` is cheap."""

    def start(self, *, max_tokens: int) -> State:
        """Raises `NoEndingFits` where no value fits into the limit."""
        ...

    @property
    def shortest(self) -> int:
        """Tokens of a short valid value: no limit may be below it."""
        ...


MachineState = Hashable


class Machine(Protocol):
    """The language of a value's spellings, prepared for one vocabulary and one text that follows."""

    @property
    def start(self) -> MachineState: ...

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        """None: no spelling goes on with this byte."""
        ...

    def accepts(self, state: MachineState) -> bool:
        """Whether the value may end here."""
        ...

    def can_continue(self, state: MachineState) -> bool:
        """Whether any byte may follow."""
        ...

    def trimmed(self, state: MachineState) -> int:
        """How many of the last bytes belong to a stop text and not to the value."""
        ...

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        """The tokens after which a valid ending fits into what remains then; None: any ending will do.

        Tokens that cross the border are among them, the end of the model's turn is not.
        """
        ...

    def ending(self, state: MachineState) -> tuple[int, ...] | None:
        """Few tokens that complete the value; None where no tokens can."""
        ...

    def forced(self, state: MachineState) -> bytes:
        """The bytes that are the only way on."""
        ...

    def warm(self) -> None:
        """Makes beforehand the masks that the first steps need, as far as that is quick."""
        ...
