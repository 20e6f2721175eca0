"""One branch while it runs. Its state has a class for each part of the scheduler that writes it:

BranchState      where it is in the plan, and what it has written     the interpreter
TokenSequence    its tokens, their positions, what they see           `append` and joins
BranchMemory     its cells and its row, and who needs them            the step builder and `memory`
Pending          the hole, decision or join that it waits for         `fields`, `choices`, `joins`
BranchRecord     what it has done                                     all of them; results are made of it
Retries          where it can be decoded again from                   `checkpoint` and `rewind`

tokens   [ fed │ not fed yet ]       `cells` has one cell for each fed token
demand   how many of them are needed; other tokens are never fed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pastalang.plan.machine import Cursor, Wait
from pastalang.plan.plan import Branch, Instance, Repeat
from pastalang.plan.run_log import Event, Fed
from pastalang.program.types import Drafts
from pastalang.runtime.events import FieldDone
from pastalang.runtime.scheduler.transcript import DrawnToken, Written
from pastalang.runtime.step import CellId, RowId

if TYPE_CHECKING:
    from pastalang.runtime.scheduler.checkpoint import Checkpoint
    from pastalang.runtime.scheduler.decision import Decision
    from pastalang.runtime.scheduler.draft_tree import DraftTree
    from pastalang.runtime.scheduler.hole import OpenHole
    from pastalang.runtime.scheduler.request import RequestState


_ONE_FED = Fed(1)  # a run has thousands of them


class Stage(Enum):
    WALKING = "walking"
    DRAWING = "drawing"  # waits for logits
    JOINING = "joining"  # waits for other branches
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Source:
    """The token that a branch follows: number `index` of `branch`."""

    branch: BranchState
    index: int


class Seen(NamedTuple):
    """A prefix of another branch."""

    branch: BranchState
    length: int


@dataclass(slots=True)
class OpenList:
    """A list that a branch is inside of: what its items have written so far, and the elements that it goes over."""

    repeat: Repeat
    elements: tuple[Any, ...] | None = None
    items: list[list[Written]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class OwnerMemory:
    """The branches of a request that have something in memory or need it, or those of the prefix cache."""

    request: RequestState | None = None
    to_feed: dict[BranchState, None] = field(default_factory=dict)  # branches with tokens that are needed and not fed
    held: dict[BranchState, None] = field(default_factory=dict)  # branches that keep memory, or may take some
    late: list[BranchState] = field(default_factory=list)  # without a row, forked after a token that was fed earlier
    cells_now: int = 0


@dataclass(eq=False, slots=True)
class TokenSequence:
    """The tokens of a branch, where they stand, and what they see of other branches."""

    source: Source | None  # what its first token follows
    view: tuple[Seen, ...]  # what its next token sees
    start: int  # the position of its first token
    position: int  # of its next token
    highest: int  # the highest position that it sees or has
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    joins: dict[int, tuple[BranchState, ...]] = field(default_factory=dict)  # before the token of this index
    sees: int = 0  # how many tokens of other branches are in its view
    values_before: list[BranchState] | None = None  # in its lock-step group, the nearest first
    prompt: int = 0  # its tokens before the model's turn, if that turn begins in it
    skip: int = 0  # so many of its first tokens are in the prefix cache
    own_before: tuple[Seen, ...] = ()  # its own beginning, in other branches: see `sample_request.penalty_tokens`


def view_from(branch: BranchState) -> tuple[Seen, ...]:
    """What a branch sees that starts here."""
    sequence = branch.sequence
    return (*sequence.view, Seen(branch, len(sequence.tokens))) if sequence.tokens else sequence.view


@dataclass(eq=False, slots=True)
class BranchMemory:
    """What a branch has in memory, what is needed there, and for whom it is kept.

    Its owner is its request, unless that is the prefix cache: a kept stretch of a prompt has no request.
    """

    owner: OwnerMemory
    cells: list[CellId] = field(default_factory=list)  # one for each fed token
    row: RowId | None = None
    fed: int = 0  # how many of its tokens
    demand: int = 0  # how many of them are needed
    children: list[tuple[int, BranchState]] = field(default_factory=list)  # (after which token, child) without a row
    waiting: dict[int, list[BranchState]] = field(default_factory=dict)  # the branches that sample after each token
    viewers: int = 0  # held branches that see it
    is_held: bool = True
    is_admitted: bool = False
    reserved: int = 0  # cells that were reserved for it when it was admitted
    expected: int = 0  # tokens of a thread: how many to reserve cells for
    draft: DraftTree | None = None  # what the current step fed after its last token
    unseen: list[CellId] = field(default_factory=list)  # cells of confirmed drafts, which its row has yet to see


@dataclass(eq=False, slots=True)
class Pending:
    """What a branch waits for: a sample for its hole or its decision, or other branches."""

    hole: OpenHole | None = None
    decision: Decision | None = None
    wait: Wait | None = None
    since: int = 0  # the forward pass in which it began to wait for other branches


@dataclass(eq=False, slots=True)
class BranchRecord:
    """What a branch has done. Nothing that it does next depends on it."""

    log: list[Event] = field(default_factory=list)
    drawn: list[DrawnToken] = field(default_factory=list)
    runs: list[tuple[int, int, int]] = field(default_factory=list)  # (first token, count, forward pass)
    joins: list[tuple[int, int, tuple[BranchState, ...]]] = field(default_factory=list)  # (since, index, joined)
    drafts: list[tuple[int, int, int]] = field(default_factory=list)  # (forward pass, drafts, confirmed ones)
    confirmed: list[int] = field(default_factory=list)  # its tokens that were drafts
    reported: list[FieldDone] = field(default_factory=list)  # the values that it has written, in their order


@dataclass(eq=False, slots=True)
class Retries:
    """Where a branch that has ended can be decoded again from, and what has replaced what: see `rewind`."""

    attempt: int = 1  # how many branches have been made for this instance, this one included
    origin: int = -1  # its number, or the number of the branch that was first forked at its place
    replaced_by: BranchState | None = None  # the branch that replaces it in the answer
    retry_from: Checkpoint | None = None  # the checkpoint it was rewound to, until its first hole, choice or list
    first_checkpoint: Checkpoint | None = None  # before its first hole, choice or list
    join_checkpoints: list[Checkpoint] = field(default_factory=list)
    keeps_cells: bool = False  # whether it may be rewound to one of its own tokens


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class BranchState:
    """Which branch it is, where it is in the plan, and what it has written; the rest of its state has other owners."""

    request: RequestState = field(init=False)  # a stretch in the prefix cache has none
    spec: Branch
    items: tuple[int, ...]
    number: int  # in the order in which branches were made: parents first
    names: Mapping[str, Any]  # the elements of the fan-outs around it
    draw_items: tuple[int, ...]  # its items, those of stacked documents left out
    cursor: Cursor  # where it is in the plan
    sequence: TokenSequence
    memory: BranchMemory
    parent: BranchState | None = None
    stage: Stage = Stage.WALKING
    lists: list[OpenList] = field(default_factory=list)  # around its place, outermost first
    written: list[Written] = field(default_factory=list)
    pending: Pending = field(default_factory=Pending)
    record: BranchRecord = field(default_factory=BranchRecord)
    retries: Retries = field(default_factory=Retries)

    def __repr__(self) -> str:
        """Short, because branches refer to one another."""
        return f"<branch {self.number} `{self.name}` {self.items}>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def instance(self) -> Instance:
        return self.cursor.instance

    @property
    def document(self) -> tuple[int, ...]:
        """The number of its document in a stack: the items that its random draws do not depend on."""
        return self.items[: len(self.items) - len(self.draw_items)]

    @property
    def has_ended(self) -> bool:
        return self.stage is Stage.ENDED

    @property
    def view(self) -> tuple[Seen, ...]:
        """The branches that it sees."""
        return self.sequence.view

    @property
    def replaced_by(self) -> BranchState | None:
        """The branch that stands for it in the answer."""
        return self.retries.replaced_by

    @property
    def drafts(self) -> Drafts:
        """How many tokens are guessed ahead of the hole that it fills."""
        hole = self.pending.hole
        asked = None if hole is None else hole.hole.sampling.drafts
        return asked or self.request.base.drafts or "off"

    @property
    def last(self) -> Source | None:
        """The token that its next token follows."""
        sequence = self.sequence
        return Source(self, len(sequence.tokens) - 1) if sequence.tokens else sequence.source

    def append(self, tokens: tuple[int, ...] | list[int]) -> None:
        """Add tokens, to be fed when they are needed."""
        sequence = self.sequence
        if tokens:
            self.record.log.append(_ONE_FED if len(tokens) == 1 else Fed(len(tokens)))
        if sequence.skip:
            skipped = min(sequence.skip, len(tokens))
            sequence.skip -= skipped
            tokens = tokens[skipped:]
        if not tokens:
            return
        sequence.tokens.extend(tokens)
        sequence.positions.extend(range(sequence.position, sequence.position + len(tokens)))
        sequence.position += len(tokens)
        sequence.highest = max(sequence.highest, sequence.position - 1)

    def need(self, count: int) -> None:
        """Its first `count` tokens are needed, and so is everything that these tokens see."""
        if count <= self.memory.demand:
            return
        needed = [(self, count)]
        while needed:
            branch, count = needed.pop()
            memory, sequence = branch.memory, branch.sequence
            if count <= memory.demand:
                continue
            for index, joined in sequence.joins.items():
                if memory.demand <= index < count:
                    needed += [(last.branch, last.index + 1) for one in joined if (last := one.last) is not None]
            if memory.demand == 0 and sequence.source is not None:
                needed.append((sequence.source.branch, sequence.source.index + 1))
            memory.demand = count
            if memory.draft is not None:
                memory.draft.confirm()
            if count > memory.fed:
                memory.owner.to_feed[branch] = None

    def take_draft(self, cell: CellId) -> None:
        """Its next token has been fed as a draft: the cell is now its own."""
        counts, memory, owner = self.request.counts, self.memory, self.memory.owner
        self.record.confirmed.append(memory.fed)
        self.record.runs.append((memory.fed, 1, counts.forward_passes))
        memory.cells.append(cell)
        memory.unseen.append(cell)
        memory.fed += 1
        owner.cells_now += 1
        counts.peak_cells = max(counts.peak_cells, owner.cells_now)
        later = [(index, child) for index, child in memory.children if index >= memory.fed]
        owner.late += [child for index, child in memory.children if index < memory.fed]
        memory.children[:] = later

    @property
    def page(self) -> list[Written]:
        """Where it writes: in the present item of the innermost list."""
        return self.lists[-1].items[-1] if self.lists else self.written

    @property
    def draw_items_here(self) -> tuple[int, ...]:
        """The item numbers at its current place, those of stacked documents left out."""
        return (*self.draw_items, *self.cursor.items[len(self.items) :])

    def move(self, answer: int = 0) -> None:
        """Move its cursor behind the present action, and begin the items and leave the lists that this passes."""
        self.cursor = self.cursor.after(answer)
        if not self.lists:
            return
        around = self.cursor.lists
        while len(self.lists) > len(around):
            self.lists.pop()
        if around:
            items = self.lists[-1].items
            while len(items) <= around[-1].item:
                items.append([])

    def wait_for_row(self) -> None:
        """Get a row with the token that it follows, or in the next step if that token has been fed."""
        source = self.sequence.source
        if source is None:
            return
        before = source.branch.memory
        if source.index < before.fed:
            self.memory.owner.late.append(self)
        else:
            before.children.append((source.index, self))

    def forget_row(self) -> None:
        """The branch no longer waits for a row."""
        source = self.sequence.source
        if source is not None:
            children = source.branch.memory.children
            children[:] = [(index, child) for index, child in children if child is not self]
