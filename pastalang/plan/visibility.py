"""Who sees whom: the one predicate from which every mask is made.

A token is placed by its branch and its index there, counted from 0; a token in flight (a draft, a mask token, a
prompt token) stands behind the last accepted token of its branch and hangs on a parent in flight.

    accepted tokens   a prefix of each branch, as the view says
    tokens in flight  the query itself and its ancestors, nothing else in flight
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

View: TypeAlias = Mapping[Hashable, int]  # how many tokens of each branch, its own included, may be seen


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """`index` in its branch; `parent` is the token in flight that it follows, or None behind the accepted ones.

    Tokens are compared by identity: several drafts may stand at the same index of one branch.
    """

    branch: Hashable
    index: int
    in_flight: bool = False
    parent: Token | None = None

    def __post_init__(self) -> None:
        if self.parent is not None:
            assert self.in_flight and self.parent.in_flight, "accepted tokens hang on nothing"
            assert self.branch == self.parent.branch, "a tree in flight belongs to one branch"


def may_see(query: Token, key: Token, view: View) -> bool:
    """`view` is the query's: of its branch when the query was fed."""
    if key.in_flight:
        return any(key is token for token in ancestors(query))
    if not query.in_flight and query.branch == key.branch:
        return key.index <= query.index
    return key.index < view.get(key.branch, 0)


def ancestors(token: Token) -> tuple[Token, ...]:
    """The token itself and what it hangs on, nearest first."""
    found = [token]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return tuple(found)


def position_in_flight(token: Token, next_position: int) -> int:
    """Depth behind the last accepted token; siblings share a position and never see each other."""
    return next_position + len(ancestors(token)) - 1


def may_see_in_lock_step(query: tuple[int, int], key: tuple[int, int]) -> bool:
    """Values of one skeleton, as (which value, which token): the earlier values up to the same token."""
    (value, index), (other, other_index) = query, key
    return other <= value and other_index <= index
