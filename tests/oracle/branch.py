"""One branch: its position, the tokens that it sees, and the branches that it may still fork.

feed    the new token sees the path so far and is added to it
fork    the child starts with the path and the position of its parent, which continues `reserve` positions later
join    the paths of the joined branches are added to the path, and the branch continues after everything it sees
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from pastalang.plan.branches import Branch, BranchId, Choose, Each, Fork, Hole, Overrun, Repeat, Segment
from tests.oracle.answer import Field, Loop, LoopItems, Written, same_items
from tests.oracle.token import Path, Token, extended

T = TypeVar("T")
Key: TypeAlias = tuple[str, tuple[int, ...]]
Instance: TypeAlias = tuple[BranchId, tuple[int, ...]]


@dataclass(slots=True)
class Frame:
    """Segments that a branch is writing, up to the one at `index`. In a loop, items after `item` may follow."""

    segments: tuple[Segment, ...]
    loops: LoopItems
    index: int = -1
    loop: Loop | None = None
    item: int = -1

    def may_fork(self, id: BranchId, wanted: LoopItems) -> bool:
        if not same_items(self.loops, wanted):
            return False
        if self.loop is None:
            return id in forked_in(self.segments[self.index + 1 :])
        return id in forked_in(self.segments) and wanted.get(self.loop, self.item + 1) > self.item


@dataclass(frozen=True)
class Lead:
    """Text before what is decoded again: a field, or all of a branch from its first hole, choice or list on.

    It is not shown. It stands at `position` if that is not where the branch is.
    """

    key: Key
    field: Key | None
    text: str
    position: int | None


@dataclass(eq=False, repr=False)
class BranchState:
    """A branch of the plan, for one item of every loop around it."""

    spec: Branch
    loops: LoopItems
    draw_items: tuple[int, ...]  # its items, those of stacked documents left out
    path: Path
    position: int
    names: Mapping[str, Any]
    sees: tuple[BranchState, ...]  # the branches that it sees a part of
    last_pass: int  # the pass of its last draw, or of the last draw that it waited for
    before: BranchState | None = None  # what it repeats
    leads: Sequence[Lead] = ()
    lead: Lead | None = None  # the one that it has reached
    is_stale: bool = False  # it repeats what it wrote, but has joined something that is not what it was
    kept: list[Token] = field(default_factory=list)  # its first tokens, if they are those of the run before
    lockstep_values: tuple[BranchState, ...] = ()  # the earlier values of its lock-step group
    tokens: list[Token] = field(default_factory=list)
    drawn_after: list[Token] = field(default_factory=list)  # the tokens after which it drew
    fields: list[Field] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    forked: list[BranchState] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)  # of its draws: values, chosen arms, whether lists continue
    joined: list[BranchState] = field(default_factory=list)
    decides: bool = False  # whether it has a hole, a choice or a list
    has_ended: bool = False
    run: int = 1  # the number of the run that it belongs to
    since: int = 1  # of the run in which it last wrote something new

    def __repr__(self) -> str:
        """Short, because branches refer to one another."""
        return f"<instance of {self.spec.name or 'the root'} {self.items}>"

    def __post_init__(self) -> None:
        self.start = self.position
        self.written_here = self.written  # where it writes now: in a loop, to the current item
        self.frames.append(Frame(self.spec.segments, self.loops))

    @property
    def items(self) -> tuple[int, ...]:
        return tuple(self.loops.values())

    @property
    def instance(self) -> Instance:
        return self.spec.id, self.items

    @property
    def document(self) -> tuple[int, ...]:
        """The items of the stacks around it: which answer it belongs to."""
        return self.items[: len(self.items) - len(self.draw_items)]

    @property
    def budget(self) -> int | None:
        """The tokens that it may still write, if its reserve limits them."""
        if self.spec.overrun is not Overrun.CAP or not self.spec.reserve:
            return None
        return max(self.start + self.spec.reserve - self.position, 0)

    def feed(self, tokens: Iterable[int]) -> None:
        """Add tokens. In lock-step, token k also sees token k of the earlier values, or waits for them to end."""
        for token in tokens:
            if len(self.tokens) < len(self.kept):
                self._add(self.kept[len(self.tokens)])
                continue
            number = len(self.tokens)
            beside = [other.tokens[number] for other in self.lockstep_values if number < len(other.tokens)]
            ended = [other.last_pass for other in self.lockstep_values if number >= len(other.tokens)]
            self._add(Token(token, self.position, extended(self.path, beside), max([self.last_pass, *ended])))

    def _add(self, fed: Token) -> None:
        self.tokens.append(fed)
        self.path = fed.path
        self.position += 1

    def skip(self, positions: int) -> None:
        """Continue after the positions that are reserved for a fork."""
        self.position += positions

    def join(self, others: Sequence[BranchState]) -> None:
        seen = list(self.sees)
        for other in others:
            self.path = extended(self.path, other.path)
            self.last_pass = max(self.last_pass, other.last_pass)
            seen += [one for one in (*other.sees, other) if one is not self]
        self.sees = tuple(dict.fromkeys(seen))
        if self.spec.overrun is not Overrun.PAPER:
            self.position = max(self.position, 1 + max((token.position for token in self.path), default=-1))

    def may_fork(self, id: BranchId, wanted: LoopItems) -> bool:
        """Whether it may still fork this branch of the plan for these items."""
        return not self.has_ended and any(frame.may_fork(id, wanted) for frame in self.frames)

    # ── decoding again ───────────────────────────────────────────────────────────────────────────────────

    def reach(self, field: Key | None, lead_tokens: Callable[[str], Iterable[int]]) -> None:
        """Before a hole, a choice or a list. Its limit counts from the end of a lead to it."""
        self.decides = True
        found = [one for one in self.leads if one.field in (None, field)]
        if self.before is None or not found:
            return
        self.become_new()
        self.lead, before = found[0], self.position
        self.position = self.position if found[0].position is None else found[0].position
        self.feed(lead_tokens(found[0].text))
        self.start += self.position - before

    def become_new(self) -> None:
        self.before, self.since = None, self.run

    def repeated_or(self, draw: Callable[[], T]) -> T:
        """The outcome of a draw: the same as before, or a new one."""
        found: T = draw() if self.before is None else self.before.outcomes[len(self.outcomes)]
        self.outcomes.append(found)
        return found


def forked_in(segments: Iterable[Segment]) -> Iterator[BranchId]:
    """The branches that are forked somewhere in these segments."""
    for segment in segments:
        match segment:
            case Fork(branch=branch) | Each(branch=branch) | Hole(threads=int() as branch):
                yield branch
            case Choose(arms=arms):
                for arm in arms:
                    yield from forked_in(arm.segments)
            case Repeat(body=body):
                yield from forked_in(body)
            case _:
                pass
