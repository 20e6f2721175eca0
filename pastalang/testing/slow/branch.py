"""One branch: where it stands, what it sees, and what it has still to fork. The rules of views and positions.

feed    every token sees the path so far, and goes on the path
fork    the child's path and position are the branch's own; the branch goes on `reserve` positions further
join    the paths of the joined branches go on the path, and the branch goes on behind all that it sees
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pastalang.plan.plan import Branch, BranchId, Choose, Each, Fork, Join, Overrun, Repeat, Segment
from pastalang.testing.slow.answer import Entry, Field, Loop, Place, agree
from pastalang.testing.slow.token import Path, Token, extended

T = TypeVar("T")


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
class Point:
    """Where a branch stood right before a hole, a choice, a list or a join, and what it had done until then: the first
    `written` of what it wrote, the first `forked` of whom it forked. `joined`: whom a join has shown it."""

    branch: Instance
    number: int  # of such places before it
    path: Path
    own: Path
    position: int
    start: int
    sees: tuple[Instance, ...]
    forked: int
    segment: Segment
    joined: tuple[Instance, ...] = ()


@dataclass(frozen=True, eq=False)
class Again:
    """A branch is taken up at a point. `lead`: what it is told there; it is no part of the answer."""

    point: Point
    lead: tuple[int, ...]


@dataclass(eq=False, repr=False)
class Instance:
    """A branch of the plan at one place. `key` is what its draws are known by: its items, documents left out."""

    spec: Branch
    place: Place
    key: tuple[int, ...]
    path: Path
    position: int
    names: Mapping[str, Any]
    sees: tuple[Instance, ...]  # the branches that it sees something of
    pass_: int  # of its last draw, or of the last one that it waited for
    attempt: int = 1
    again: Again | None = None  # until it stands where it is taken up
    own_before: Path = ()
    beside: tuple[Instance, ...] = ()  # the values that it goes in lock-step with
    tokens: list[Token] = field(default_factory=list)
    asked: list[Token] = field(default_factory=list)  # those that it drew behind
    fields: list[Field] = field(default_factory=list)
    page: list[Entry] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    forked: list[Instance] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)  # what its draws came to: values, arms, whether lists go on
    points: list[Point] = field(default_factory=list)
    has_ended: bool = False
    replaced_by: Instance | None = None
    is_out: bool = False  # of the answer

    def __repr__(self) -> str:
        """Short: what refers to one another cannot be written out."""
        return f"<instance of {self.spec.name or 'the root'} {self.items}>"

    def __post_init__(self) -> None:
        self.start = self.position
        self.page_now = self.page  # where it writes: in a list, the page of the item
        self.levels.append(Level(self.spec.segments, self.place))

    @property
    def beginning(self) -> Point | None:
        """Before its first hole, choice or list."""
        return next((point for point in self.points if not isinstance(point.segment, Join)), None)

    @property
    def items(self) -> tuple[int, ...]:
        return tuple(self.place.values())

    @property
    def own(self) -> Path:
        """What it has written, and who it stands for before it."""
        return (*self.own_before, *self.tokens)

    @property
    def latest(self) -> Instance:
        """Who stands for it in the answer."""
        return self if self.replaced_by is None else self.replaced_by.latest

    @property
    def room(self) -> int | None:
        """How many tokens it may still write, where its reserve bounds it."""
        if self.spec.overrun is not Overrun.CAP or not self.spec.reserve:
            return None
        return max(self.start + self.spec.reserve - self.position, 0)

    def feed(self, tokens: Iterable[int]) -> None:
        """In lock-step, token k also sees token k of the values before it, or comes when they are known to be over."""
        if self.again is not None:
            return
        for token in tokens:
            number = len(self.tokens)
            level = [other.tokens[number] for other in self.beside if number < len(other.tokens)]
            over = [other.pass_ for other in self.beside if number >= len(other.tokens)]
            fed = Token(token, self.position, extended(self.path, level), max([self.pass_, *over]))
            self.tokens.append(fed)
            self.path = fed.path
            self.position += 1

    def leave(self, room: int) -> None:
        """Go on behind the room of who was forked here."""
        if self.again is None:
            self.position += room

    def join(self, others: Sequence[Instance]) -> None:
        seen = list(self.sees)
        for other in others:
            self.path = extended(self.path, other.path)
            self.pass_ = max(self.pass_, other.pass_)
            seen += [one for one in (*other.sees, other) if one is not self]
        self.sees = tuple(dict.fromkeys(seen))
        if self.spec.overrun is not Overrun.PAPER:
            self.position = max(self.position, 1 + max((token.position for token in self.path), default=-1))

    def may_fork(self, id: BranchId, wanted: Place) -> bool:
        """Whether such a branch may still be forked at this place."""
        return not self.has_ended and any(level.may_fork(id, wanted) for level in self.levels)

    # ── taken up again ───────────────────────────────────────────────────────────────────────────────────

    def come_to_point(self, segment: Segment) -> Point:
        """A branch that is taken up goes the way of the old one as far as the point: what that wrote there stands,
        whom it forked stays, and nothing is fed. The next attempt starts there too, not behind the lead."""
        again = self.again
        if again is None or (again.point.number == len(self.points) and isinstance(segment, Join)):
            point = Point(
                self, len(self.points), self.path, self.own, self.position, self.start, self.sees,
                len(self.forked), segment,
            )  # fmt: skip
        else:
            point = again.point.branch.points[len(self.points)]
        self.points.append(point)
        if again is not None and again.point.number == point.number:
            self.again = None
            self.feed(again.lead)
            self.start = again.point.start + self.position - again.point.position
        return point

    def once(self, write: Callable[[], T]) -> T:
        """What the old branch wrote here, or what this one writes now."""
        found: T = write() if self.again is None else self.again.point.branch.written[len(self.written)]
        self.written.append(found)
        return found


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
