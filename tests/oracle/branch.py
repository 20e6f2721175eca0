"""One branch: its position, the tokens that it sees, and the branches that it may still fork.

feed    the new token sees the path so far and is added to it
fork    the child starts with the path and the position of its parent, which continues `reserve` positions later
join    the paths of the joined branches are added to the path, and the branch continues after everything it sees
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pastalang.plan.branches import Branch, BranchId, Choose, Each, Fork, Hole, Join, Overrun, Repeat, Segment
from tests.oracle.answer import Field, Loop, LoopItems, Written, same_items
from tests.oracle.token import Path, Token, extended

T = TypeVar("T")


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


@dataclass(eq=False)
class Checkpoint:
    """A branch as it was right before a hole, a choice, a list or a join, so that it can be decoded again from there.

    `number` counts its earlier checkpoints, and `forked` the branches that it had forked. `joined` are the branches
    that the join at this checkpoint added.
    """

    branch: BranchState
    number: int
    path: Path
    own: Path
    position: int
    start: int
    sees: tuple[BranchState, ...]
    forked: int
    segment: Segment
    joined: tuple[BranchState, ...] = ()


@dataclass(frozen=True, eq=False)
class Replay:
    """A branch repeats an older one up to a checkpoint, is fed `lead`, which is not shown, and decodes from there."""

    checkpoint: Checkpoint
    lead: tuple[int, ...]


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
    attempt: int = 1
    replay: Replay | None = None  # until it reaches the checkpoint
    own_before: Path = ()
    lockstep_values: tuple[BranchState, ...] = ()  # the earlier values of its lock-step group
    tokens: list[Token] = field(default_factory=list)
    drawn_after: list[Token] = field(default_factory=list)  # the tokens after which it drew
    fields: list[Field] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    forked: list[BranchState] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)  # of its draws: values, chosen arms, whether lists continue
    checkpoints: list[Checkpoint] = field(default_factory=list)
    has_ended: bool = False
    replaced_by: BranchState | None = None
    is_hidden: bool = False  # from the answer

    def __repr__(self) -> str:
        """Short, because branches refer to one another."""
        return f"<instance of {self.spec.name or 'the root'} {self.items}>"

    def __post_init__(self) -> None:
        self.start = self.position
        self.written_here = self.written  # where it writes now: in a loop, to the current item
        self.frames.append(Frame(self.spec.segments, self.loops))

    @property
    def first_checkpoint(self) -> Checkpoint | None:
        """Before its first hole, choice or list."""
        return next((checkpoint for checkpoint in self.checkpoints if not isinstance(checkpoint.segment, Join)), None)

    @property
    def items(self) -> tuple[int, ...]:
        return tuple(self.loops.values())

    @property
    def own(self) -> Path:
        """The branch's own tokens, and those of the branches that it replaces, up to its checkpoint."""
        return (*self.own_before, *self.tokens)

    @property
    def document(self) -> tuple[int, ...]:
        """The items of the stacks around it: which answer it belongs to."""
        return self.items[: len(self.items) - len(self.draw_items)]

    @property
    def latest(self) -> BranchState:
        """The branch that stands for it in the answer: mostly itself."""
        return self if self.replaced_by is None else self.replaced_by.latest

    @property
    def budget(self) -> int | None:
        """The tokens that it may still write, if its reserve limits them."""
        if self.spec.overrun is not Overrun.CAP or not self.spec.reserve:
            return None
        return max(self.start + self.spec.reserve - self.position, 0)

    def feed(self, tokens: Iterable[int]) -> None:
        """Add tokens. In lock-step, token k also sees token k of the earlier values, or waits for them to end."""
        if self.replay is not None:
            return
        for token in tokens:
            number = len(self.tokens)
            beside = [other.tokens[number] for other in self.lockstep_values if number < len(other.tokens)]
            ended = [other.last_pass for other in self.lockstep_values if number >= len(other.tokens)]
            fed = Token(token, self.position, extended(self.path, beside), max([self.last_pass, *ended]))
            self.tokens.append(fed)
            self.path = fed.path
            self.position += 1

    def skip(self, positions: int) -> None:
        """Continue after the positions that are reserved for a fork."""
        if self.replay is None:
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

    def reach_checkpoint(self, segment: Segment) -> Checkpoint:
        """Note a checkpoint. During a replay it is the checkpoint of the older branch, and nothing is fed.

        At the last one the replay ends and the lead is fed. A later attempt starts at the same checkpoint, before the
        lead of this one.
        """
        replay = self.replay
        if replay is None or (replay.checkpoint.number == len(self.checkpoints) and isinstance(segment, Join)):
            checkpoint = Checkpoint(
                self, len(self.checkpoints), self.path, self.own, self.position, self.start, self.sees,
                len(self.forked), segment,
            )  # fmt: skip
        else:
            checkpoint = replay.checkpoint.branch.checkpoints[len(self.checkpoints)]
        self.checkpoints.append(checkpoint)
        if replay is not None and replay.checkpoint.number == checkpoint.number:
            self.replay = None
            self.feed(replay.lead)
            self.start = replay.checkpoint.start + self.position - replay.checkpoint.position
        return checkpoint

    def replayed_or(self, draw: Callable[[], T]) -> T:
        """The outcome of a draw: during a replay that of the older branch, otherwise a new one."""
        found: T = draw() if self.replay is None else self.replay.checkpoint.branch.outcomes[len(self.outcomes)]
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
