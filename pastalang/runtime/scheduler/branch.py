"""One branch while it runs: its tokens, its place in its segments, what it sees, and which cells it owns.

tokens   [ fed │ to be fed in the next step that takes it ]      cells holds those of the fed ones
demand   how many of them somebody needs fed: nothing is fed for nobody
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pastalang.plan.plan import Branch, Repeat, Segment
from pastalang.plan.realised import Outcome
from pastalang.runtime.events import FieldDone
from pastalang.runtime.scheduler.transcript import DrawnToken, Written
from pastalang.runtime.step import CellId, RowId

if TYPE_CHECKING:
    from pastalang.runtime.scheduler.decision import Decision
    from pastalang.runtime.scheduler.hole import OpenHole


class Stage(Enum):
    WALKING = "walking"
    DRAWING = "drawing"  # waits for logits
    JOINING = "joining"  # waits for other branches
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Source:
    """The token that a branch goes on from: number `index` of `branch`."""

    branch: BranchState
    index: int


class Seen(NamedTuple):
    """A prefix of another branch."""

    branch: BranchState
    length: int


@dataclass(slots=True)
class Frame:
    """A place in nested segments. A repeat's frame is entered once per item."""

    segments: tuple[Segment, ...]
    written: list[Written]
    address: tuple[int, ...] = ()
    index: int = 0
    repeat: Repeat | None = None
    item: int = 0
    elements: tuple[Any, ...] | None = None  # what a repeat over a list goes over
    loop: list[list[Written]] = field(default_factory=list)


@dataclass(eq=False, repr=False, slots=True)
class BranchState:
    request: Any  # a RequestState, or the Owner of kept prompts
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
    parent: BranchState | None = None
    forked_in: int = 0
    stage: Stage = Stage.WALKING
    frames: list[Frame] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    cells: list[CellId] = field(default_factory=list)
    drawn: list[DrawnToken] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)  # token counts of the forced segments, as met
    runs: list[tuple[int, int, int]] = field(default_factory=list)  # (first token, count, forward pass)
    joins: dict[int, tuple[BranchState, ...]] = field(default_factory=dict)  # before the token of this index
    join_marks: list[tuple[int, int, tuple[BranchState, ...]]] = field(default_factory=list)  # (since, index, joined)
    fed: int = 0
    demand: int = 0
    row: RowId | None = None
    children: list[tuple[int, BranchState]] = field(default_factory=list)  # (behind which token, who) not yet begun
    waiting: dict[int, list[BranchState]] = field(default_factory=dict)  # who draws from the logits of which token
    hole: OpenHole | None = None
    decision: Decision | None = None
    joining_since: int = 0
    viewers: int = 0  # branches that see it and are still held
    is_held: bool = True
    is_admitted: bool = False
    reserved: int = 0  # cells set aside for it and not yet taken
    values_before: list[BranchState] | None = None  # in its lock-step group, the nearest first
    draws: int = 0
    prompt: int = 0  # its tokens before the model's own turn, where that turn begins in it
    skip: int = 0  # so many tokens it need not write: they are kept from an earlier request
    sees: int = 0  # how many tokens of other branches it sees
    own_before: tuple[Seen, ...] = ()  # what of its own was written before it: see `drawing.tokens_before`
    # Where finished branches may be taken up again (see `points.py`, `again.py`):
    attempt: int = 1  # how many branches have been made for this instance, this one included
    origin: int = -1  # its number, or that of the one which was forked where it stands
    replaced_by: BranchState | None = None  # who stands for it in the answer
    resumed_at: Any = None  # the Point that it was taken up at, until it gets to its first hole, choice or list
    beginning: Any = None  # the Point before its first hole, choice or list
    told: list[FieldDone] = field(default_factory=list)  # of the values that it has written, in their order
    joins_met: list[Any] = field(default_factory=list)  # the Points of its joins
    keeps_cells: bool = False  # whether it may be taken up behind tokens of its own
    # While a step is put together:
    placed: int = 0  # tokens fed once the step is over
    pieces: list[tuple[int, int, int]] = field(default_factory=list)  # (first token, index in the step, count)

    def __repr__(self) -> str:
        """Short: what refers to one another cannot be written out."""
        return f"<branch {self.number} `{self.name}` {self.items}>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def purpose(self) -> str:
        """What tells its draws from those of the branches that it stands for."""
        return "" if self.attempt == 1 else f"attempt {self.attempt}"

    @property
    def has_ended(self) -> bool:
        return self.stage is Stage.ENDED

    @property
    def last(self) -> Source | None:
        """The token that whatever comes next goes on from."""
        return Source(self, len(self.tokens) - 1) if self.tokens else self.source

    def append(self, tokens: tuple[int, ...] | list[int]) -> None:
        """Tokens behind those that it has, to be fed when somebody needs them."""
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

    def index_in_step(self, index: int) -> int:
        """Where a token that this step feeds stands in the step."""
        for first, start, count in self.pieces:
            if first <= index < first + count:
                return start + index - first
        raise AssertionError(f"token {index} of `{self.name}` is not in this step")

    def items_here(self) -> tuple[int, ...]:
        """The item numbers at the place where it stands."""
        return (*self.items, *(frame.item for frame in self.frames if frame.repeat is not None))
