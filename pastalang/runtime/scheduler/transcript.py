"""What a branch has written, in reading order, as a tree: text, fields, other branches, loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pastalang.plan.outcomes import Drawn
from pastalang.plan.plan import Form
from pastalang.program.types import Type
from pastalang.runtime.decode.weights import Weights
from pastalang.source import Span

if TYPE_CHECKING:
    from pastalang.runtime.scheduler.branch import BranchState
    from pastalang.runtime.scheduler.checkpoint import Checkpoint
    from pastalang.runtime.scheduler.threads import Pending


@dataclass(slots=True)
class Tally:
    """How the tokens of one hole or decision came about: see `plan.realised.Drawn`."""

    rides: list[int] = field(default_factory=lambda: [0])
    dropped: bool = False

    def force(self, tokens: int) -> None:
        self.rides[-1] += tokens

    def draw(self) -> None:
        self.rides.append(0)

    @property
    def draws(self) -> int:
        return len(self.rides) - 1

    @property
    def drawn(self) -> Drawn:
        return Drawn(tuple(self.rides), self.dropped)


@dataclass(frozen=True, slots=True)
class DrawnToken:
    """`index` is where the token stands among the tokens of its branch; None: it was not fed as it is."""

    token: int
    log_probability: float
    forward_pass: int
    index: int | None
    text: str


@dataclass(slots=True)
class Details:
    """What a type did to the model's probabilities: per drawn token, and per option where it is a closed choice."""

    pushed_aside: list[float] = field(default_factory=list)
    weights: Weights = field(default_factory=Weights)


@dataclass(frozen=True, slots=True)
class Thread:
    """`at`: how much of the text stands before it; `draw`: the draw of the text that completed its tag."""

    topic: str
    at: int
    draw: int
    branch: BranchState


@dataclass(slots=True)
class Threads:
    """`waits`: (the draw that completed the tag, how many threads had begun) for each time that the text waited."""

    begun: list[Thread] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    pending: Pending | None = None  # the token that completed the tag and waits


@dataclass(slots=True)
class Field:
    """A hole being filled, or filled. `tokens` holds the drawn and the forced ones."""

    path: str
    type: Type
    form: Form
    span: Span
    branch: str
    items: tuple[int, ...]
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    truncated: bool = False
    is_done: bool = False
    problem: str | None = None  # why there is no value, or what a validator objects to
    checkpoint: Checkpoint | None = None  # where it is decoded again from
    details: Details | None = None
    threads: Threads | None = None  # that the model began inside it
    tally: Tally = field(default_factory=Tally)
    reported: int = 0  # characters of its text that the caller knows


@dataclass(frozen=True, slots=True)
class WrittenText:
    text: str
    in_answer: bool = True


@dataclass(frozen=True, slots=True)
class WrittenField:
    field: Field


@dataclass(frozen=True, slots=True)
class WrittenBranch:
    """The text of another branch stands here."""

    branch: BranchState


@dataclass(frozen=True, slots=True)
class WrittenLoop:
    """Items one after another; `stacked`: each is an answer of its own."""

    name: str
    items: list[list[Written]]
    stacked: bool = False


Written: TypeAlias = WrittenText | WrittenField | WrittenBranch | WrittenLoop
