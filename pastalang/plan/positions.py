"""How branches count the positions of their tokens.

gap        a child starts where its parent is; the parent goes on `reserve` further     {"a": ┬──7──┬ ,"b":
announced  the same, with the length that the author announced                             {async a ~60}
path       the same with a reserve of 0: child and parent overlap, and never see each other  {async a}
dense      every reserve is 0: each branch stands right behind what it sees
after join see `after_join`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pastalang.limits import MAX_THREAD_ROOMS
from pastalang.plan.branches import Overrun


@dataclass(frozen=True, slots=True)
class Forked:
    child: int  # the position of the child's first token
    parent: int  # of the parent's next one


@dataclass(frozen=True, slots=True)
class FannedOut:
    children: tuple[int, ...]
    parent: int


def after_fork(position: int, reserve: int) -> Forked:
    """`position` is that of the parent's next token."""
    return Forked(position, position + reserve)


def thread_rooms(limit: int) -> int:
    """The positions that the threads of one text reserve together at most. `limit` is the `max` of the text."""
    return MAX_THREAD_ROOMS * limit


def after_each(position: int, reserve: int, items: int, *, stacked: bool) -> FannedOut:
    """Items start one after another, each at the beginning of its reserve; stacked documents at the same position."""
    step = 0 if stacked else reserve
    return FannedOut(tuple(position + step * item for item in range(items)), position + step * items)


def after_join(position: int, highest_seen: int, overrun: Overrun) -> int:
    """Where a branch goes on after a join: `position` is its own counter, `highest_seen` the highest that it sees.

    Announced too long, a gap remains. Announced too short:
      continue  one past everything that it sees, so that no two visible tokens share a position
      paper     at its own counter, whatever the branches did: positions may then repeat
      cap       at its own counter, which nothing can have passed; overlapping branches are passed anyway
    """
    match overrun:
        case Overrun.PAPER:
            return position
        case Overrun.CONTINUE | Overrun.CAP:
            return max(position, highest_seen + 1)
        case _:
            assert_never(overrun)


def tokens_left(position: int, start: int, reserve: int, overrun: Overrun) -> int | None:
    """How many tokens a branch at `position` may still write; None: as many as its holes allow."""
    if overrun is not Overrun.CAP or reserve == 0:
        return None
    return max(start + reserve - position, 0)
