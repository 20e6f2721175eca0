"""One branch: where it stands, what it sees, and what it has still to fork. The rules of views and positions.

feed    every token sees the path so far, and goes on the path
fork    the child's path and position are the branch's own; the branch goes on `reserve` positions further
join    the paths of the joined branches go on the path, and the branch goes on behind all that it sees
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pastalang.plan.plan import Branch, BranchId, Choose, Each, Fork, Overrun, Repeat, Segment
from pastalang.testing.slow.page import Entry, Field
from pastalang.testing.slow.place import Loop, Place, agree
from pastalang.testing.slow.token import Path, Token, extended


@dataclass(slots=True)
class Level:
    """Segments that a branch is in; those up to `index` are done or begun. In a loop, items behind `item` may come."""

    segments: tuple[Segment, ...]
    place: Place
    index: int = -1
    loop: Loop | None = None
    item: int = -1

    def may_fork(self, id: BranchId, wanted: Place) -> bool:
        if not agree(self.place, wanted):
            return False
        if self.loop is None:
            return id in forked_in(self.segments[self.index + 1 :])
        return id in forked_in(self.segments) and wanted.get(self.loop, self.item + 1) > self.item


@dataclass(eq=False)
class Instance:
    """A branch of the plan at one place. `key` is what its draws are known by: its items, documents left out."""

    spec: Branch
    place: Place
    key: tuple[int, ...]
    path: Path
    position: int
    names: Mapping[str, Any]
    sees: tuple[Instance, ...]  # the branches that it sees something of
    beside: tuple[Instance, ...] = ()  # the values that it goes in lock-step with
    tokens: list[Token] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    page: list[Entry] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    draws: int = 0
    has_ended: bool = False

    def __post_init__(self) -> None:
        self.start = self.position
        self.page_now = self.page  # where it writes: in a list, the page of the item
        self.levels.append(Level(self.spec.segments, self.place))

    @property
    def items(self) -> tuple[int, ...]:
        return tuple(self.place.values())

    @property
    def room(self) -> int | None:
        """How many tokens it may still write, where its reserve bounds it."""
        if self.spec.overrun is not Overrun.CAP or not self.spec.reserve:
            return None
        return max(self.start + self.spec.reserve - self.position, 0)

    def feed(self, tokens: Iterable[int]) -> None:
        """In lock-step, token k also sees token k of the values before it."""
        for token in tokens:
            number = len(self.tokens)
            level = [other.tokens[number] for other in self.beside if number < len(other.tokens)]
            fed = Token(token, self.position, extended(self.path, level))
            self.tokens.append(fed)
            self.path = fed.path
            self.position += 1

    def join(self, others: Iterable[Instance]) -> None:
        seen = list(self.sees)
        for other in others:
            self.path = extended(self.path, other.path)
            seen += [one for one in (*other.sees, other) if one is not self]
        self.sees = tuple(dict.fromkeys(seen))
        if self.spec.overrun is not Overrun.PAPER:
            self.position = max(self.position, 1 + max((token.position for token in self.path), default=-1))

    def may_fork(self, id: BranchId, wanted: Place) -> bool:
        """Whether such a branch may still be forked at this place."""
        return not self.has_ended and any(level.may_fork(id, wanted) for level in self.levels)


def forked_in(segments: Iterable[Segment]) -> Iterator[BranchId]:
    """The branches that are forked somewhere in these segments."""
    for segment in segments:
        match segment:
            case Fork(branch=branch) | Each(branch=branch):
                yield branch
            case Choose(arms=arms):
                for arm in arms:
                    yield from forked_in(arm.segments)
            case Repeat(body=body):
                yield from forked_in(body)
            case _:
                pass
