"""A token and what it sees: the whole of visibility, positions and order, as plain tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Token:
    """`sees` is its path: every token that it may attend to, itself left out, in the order in which it came to see
    them. Tokens are told apart by identity, never by what they say. `known`: the pass in which it was drawn, or in
    which what was drawn made it certain; it can be fed in the pass behind that."""

    token: int
    position: int
    sees: Path
    known: int = 0

    @property
    def path(self) -> Path:
        return (*self.sees, self)


Path: TypeAlias = "tuple[Token, ...]"

# All that a model is here: a token comes in, the logits behind it go out, a function of its path and nothing else.
Logits: TypeAlias = Callable[[Token], NDArray[np.float64]]


def extended(path: Path, more: Iterable[Token]) -> Path:
    """`path`, then what only `more` has, in its order."""
    known = set(map(id, path))
    return (*path, *(token for token in more if id(token) not in known))
