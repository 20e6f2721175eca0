"""One branch while it runs: its tokens, its place in its segments, what it sees, and which cells it owns.

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


class BranchOwner:
    """Owns branches: a request, or the prefix cache."""

    def __init__(self) -> None:
        self.disown_all()

    def disown_all(self) -> None:
        self.to_feed: dict[BranchState, None] = {}  # branches with tokens that are needed and not fed
        self.held: dict[BranchState, None] = {}  # branches that keep memory, or may take some
        self.late: list[BranchState] = []  # branches without a row, forked after a token that an earlier step fed
        self.cells_now = 0

    def demand(self, branch: BranchState, count: int) -> None:
        """The first `count` tokens of a branch are needed, and so is everything that these tokens see."""
        if count <= branch.demand:
            return
        waiting = [(branch, count)]
        while waiting:
            branch, count = waiting.pop()
            if count <= branch.demand:
                continue
            for index, joined in branch.joins.items():
                if branch.demand <= index < count:
                    waiting += [(last.branch, last.index + 1) for one in joined if (last := one.last) is not None]
            if branch.demand == 0 and branch.source is not None:
                waiting.append((branch.source.branch, branch.source.index + 1))
            branch.demand = count
            if branch.draft is not None:
                branch.draft.confirm()
            if count > branch.fed:
                branch.owner.to_feed[branch] = None


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class BranchState:
    """`request` is its owner, unless that is the prefix cache: a kept stretch of a prompt has no request."""

    owner: BranchOwner
    request: RequestState = field(init=False)
    spec: Branch
    items: tuple[int, ...]
    number: int  # in the order in which branches were made: parents first
    source: Source | None
    view: tuple[Seen, ...]
    start: int  # the position of its first token
    position: int  # of its next token
    highest: int  # the highest position that it sees or has
    names: Mapping[str, Any]  # the elements of the fan-outs around it
    draw_items: tuple[int, ...]  # its items, those of stacked documents left out
    cursor: Cursor  # where it is in the plan
    parent: BranchState | None = None
    forked_in: int = 0
    stage: Stage = Stage.WALKING
    lists: list[OpenList] = field(default_factory=list)  # around its place, outermost first
    wait: Wait | None = None  # what it waits for
    written: list[Written] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    cells: list[CellId] = field(default_factory=list)
    drawn: list[DrawnToken] = field(default_factory=list)
    log: list[Event] = field(default_factory=list)  # what it has done
    runs: list[tuple[int, int, int]] = field(default_factory=list)  # (first token, count, forward pass)
    joins: dict[int, tuple[BranchState, ...]] = field(default_factory=dict)  # before the token of this index
    join_marks: list[tuple[int, int, tuple[BranchState, ...]]] = field(default_factory=list)  # (since, index, joined)
    fed: int = 0
    demand: int = 0
    row: RowId | None = None
    children: list[tuple[int, BranchState]] = field(default_factory=list)  # (after which token, child) without a row
    waiting: dict[int, list[BranchState]] = field(default_factory=dict)  # the branches that sample after each token
    hole: OpenHole | None = None
    decision: Decision | None = None
    joining_since: int = 0
    viewers: int = 0  # held branches that see it
    is_held: bool = True
    is_admitted: bool = False
    reserved: int = 0  # cells that were reserved for it when it was admitted
    expected: int = 0  # tokens of a thread: how many to reserve cells for
    values_before: list[BranchState] | None = None  # in its lock-step group, the nearest first
    draws: int = 0
    prompt: int = 0  # its tokens before the model's turn, if that turn begins in it
    skip: int = 0  # so many of its first tokens are in the prefix cache
    sees: int = 0  # how many tokens of other branches it sees
    own_before: tuple[Seen, ...] = ()  # its own beginning, in other branches: see `sample_request.penalty_tokens`
    # For finished branches that are decoded again (see `checkpoint`, `rewind`):
    attempt: int = 1  # how many branches have been made for this instance, this one included
    origin: int = -1  # its number, or the number of the branch that was first forked at its place
    replaced_by: BranchState | None = None  # the branch that replaces it in the answer
    retry_from: Checkpoint | None = None  # the checkpoint it was rewound to, until its first hole, choice or list
    first_checkpoint: Checkpoint | None = None  # before its first hole, choice or list
    reported: list[FieldDone] = field(default_factory=list)  # the values that it has written, in their order
    join_checkpoints: list[Checkpoint] = field(default_factory=list)
    keeps_cells: bool = False  # whether it may be rewound to one of its own tokens
    # Drafts:
    draft: DraftTree | None = None  # what the current step fed after its last token
    drafted: list[tuple[int, int, int]] = field(default_factory=list)  # (forward pass, drafts, confirmed ones)
    confirmed: list[int] = field(default_factory=list)  # its tokens that were drafts
    unseen: list[CellId] = field(default_factory=list)  # cells of confirmed drafts, which its row has yet to see
    # While a step is built:
    placed: int = 0  # tokens fed once the step has run
    pieces: list[tuple[int, int, int]] = field(default_factory=list)  # (first token, index in the step, count)

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
    def purpose(self) -> str:
        """Sets its random draws apart from those of the branches that it replaces."""
        return "" if self.attempt == 1 else f"attempt {self.attempt}"

    @property
    def has_ended(self) -> bool:
        return self.stage is Stage.ENDED

    @property
    def drafts(self) -> Drafts:
        """How many tokens are guessed ahead of the hole that it fills."""
        asked = None if self.hole is None else self.hole.hole.sampling.drafts
        return asked or self.request.base.drafts or "off"

    @property
    def last(self) -> Source | None:
        """The token that its next token follows."""
        return Source(self, len(self.tokens) - 1) if self.tokens else self.source

    def append(self, tokens: tuple[int, ...] | list[int]) -> None:
        """Add tokens, to be fed when they are needed."""
        if tokens:
            self.log.append(_ONE_FED if len(tokens) == 1 else Fed(len(tokens)))
        if self.skip:
            skipped = min(self.skip, len(tokens))
            self.skip -= skipped
            tokens = tokens[skipped:]
        if not tokens:
            return
        self.tokens.extend(tokens)
        self.positions.extend(range(self.position, self.position + len(tokens)))
        self.position += len(tokens)
        self.highest = max(self.highest, self.position - 1)

    def take_draft(self, cell: CellId) -> None:
        """Its next token has been fed as a draft: the cell is now its own."""
        request = self.request
        self.confirmed.append(self.fed)
        self.runs.append((self.fed, 1, request.forward_passes))
        self.cells.append(cell)
        self.unseen.append(cell)
        self.fed += 1
        request.cells_now += 1
        request.peak_cells = max(request.peak_cells, request.cells_now)
        later = [(index, child) for index, child in self.children if index >= self.fed]
        request.late += [child for index, child in self.children if index < self.fed]
        self.children[:] = later

    def index_in_step(self, index: int) -> int:
        """The index in this step of a token that the step feeds."""
        for first, start, count in self.pieces:
            if first <= index < first + count:
                return start + index - first
        raise AssertionError(f"token {index} of `{self.name}` is not in this step")

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
        if self.source is None:
            return
        before = self.source.branch
        if self.source.index < before.fed:
            self.owner.late.append(self)
        else:
            before.children.append((self.source.index, self))

    def forget_row(self) -> None:
        """The branch no longer waits for a row."""
        if self.source is not None:
            children = self.source.branch.children
            children[:] = [(index, child) for index, child in children if child is not self]
