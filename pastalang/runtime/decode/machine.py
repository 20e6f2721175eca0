"""What a guide needs to know of one kind of value, as a machine over bytes. States are hashable values."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from pastalang.runtime.decode.guide import TokenMask

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

    def goes_on(self, state: MachineState) -> bool:
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
