"""A token and the tokens that it sees. Plain tuples hold all of visibility, positions and order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Token:
    """`sees` holds every token that it attends to besides itself, in the order in which it came to see them.

    Tokens are compared by identity. `known` is the pass whose draws determine this token; it is fed in a later pass.
    """

    token: int
    position: int
    sees: Path
    known: int = 0

    @property
    def path(self) -> Path:
        return (*self.sees, self)


Path: TypeAlias = "tuple[Token, ...]"

# A model: the logits after a token, as a function of its path and of nothing else.
Logits: TypeAlias = Callable[[Token], NDArray[np.float64]]


def extended(path: Path, more: Iterable[Token]) -> Path:
    """`path`, then the tokens that only `more` has, in their order."""
    known = set(map(id, path))
    return (*path, *(token for token in more if id(token) not in known))
