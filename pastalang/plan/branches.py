"""What a plan is made of: branches, what each writes and sees, their positions. Frozen data; no tokens, no tensors.

Many tokenizers write a space together with the word after it. For them, `binding.whitespace` changes a plan: a text is
`fed` without its last space, and the `space` is written with what follows. The text of the answer is the same.

A plan describes *patterns*. A branch inside a `Repeat` or an `Each` stands for one instance per item, made
when the runtime gets there; `Instance` names such an instance. Everything else is known before decoding.

    root      ──turns──┬─ "brand": ─┬────────────┬─ "price": ─┬──── }
                       │            └ hole brand │            └ hole price
                       └ positions of the parent jump by `reserve` after every fork
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NewType, TypeAlias, TypeVar

from pastalang.program.pieces import For, If, InputValue
from pastalang.program.program import History, Input, Role
from pastalang.program.types import AutoPolicy, Sampling, String, Type
from pastalang.source import Span

T = TypeVar("T")
BranchId = NewType("BranchId", int)
ROOT = BranchId(0)
THREAD: Final = "thread[]"  # the branch of the threads of a whole answer, and their field


def _bound(default: Any) -> Any:
    """A field that only a plan bound to a tokenizer has: it is never saved."""
    return field(default=default, metadata={"bound": True})


class Mode(Enum):
    """How the independent parts of a JSON skeleton relate to one another."""

    STRICT = "strict"  # a value sees the skeleton up to its key, what it names with `after`, and itself
    LOCKSTEP = "lockstep"  # also the values before it, up to its own token index
    SEQUENTIAL = "sequential"  # everything left to right in one branch: the baseline


# ── segments: what a branch writes, in order ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The words of the chat template that open this turn. `index` counts the turns of the plan."""

    role: Role
    index: int


@dataclass(frozen=True, slots=True)
class TurnEnd:
    role: Role
    index: int


@dataclass(frozen=True, slots=True)
class Value:
    """A value in JSON, within running text, that several segments write. The first of them says so."""

    field: str
    type: Type


@dataclass(frozen=True, slots=True)
class Text:
    """Forced text. What is not `shown` (control tags) is fed to the model but is no part of the answer.

    `fed` is what the model reads in its place, if that differs.
    """

    text: str
    shown: bool = True
    begins: Value | None = None
    fed: str | None = _bound(None)

    @property
    def fed_text(self) -> str:
        return self.text if self.fed is None else self.fed


@dataclass(frozen=True, slots=True)
class InputText:
    """Forced text that data gives: an input or a part of one; `("tip", "name")` reaches into an item.

    With a `block`, the text is what the block of a message makes of the value at `path`.
    """

    path: tuple[str, ...]
    span: Span
    block: For | If | None = None

    @property
    def piece(self) -> InputValue | For | If:
        """The piece of the program that it stands for."""
        return self.block or InputValue(self.path, self.span)


@dataclass(frozen=True, slots=True)
class ItemNumber:
    """The number of the item in the innermost `Repeat` or `Each`, counted from 1, as forced text."""


KnownText: TypeAlias = Text | InputText | ItemNumber  # text that is known once a branch gets there


class Form(Enum):
    """How a value is spelled."""

    JSON = "json"
    TEXT = "text"
    THOUGHT = "thought"  # any text up to `</think>`, which is no part of the answer


@dataclass(frozen=True, slots=True)
class Hole:
    """Sampled text. At most `max_tokens` tokens, what closes it (a quote, a bracket) included.

    `follow` is the text that follows the value in the answer ("" at its end). A token may cross the border between
    the two: it ends the hole if it agrees with `follow`, and only its part before the border is kept.

    In a text with `auto` the model opens threads: instances of the branch `threads`, which start where their tags are.
    Its items number them, as those of an `Each`. A thread's own hole has no `threads`.

    The model writes `space` and then the value.
    """

    field: str  # its path, unique in the plan: "price", "items[].price"
    type: Type
    form: Form
    max_tokens: int
    sampling: Sampling
    follow: str
    span: Span
    threads: BranchId | None = None
    space: str = _bound("")

    @property
    def auto(self) -> AutoPolicy | None:
        """The tags that the model may write in the text."""
        return self.type.auto if isinstance(self.type, String) else None

    @property
    def is_thread(self) -> bool:
        return self.auto is not None and self.threads is None

    @property
    def opening_quote(self) -> str:
        """The quote that stands before a hole which writes the text of a JSON string without its quotes."""
        return '"' if self.auto is not None and self.form is Form.JSON else ""


@dataclass(frozen=True, slots=True)
class Fork:
    """`branch` starts here: it sees what this branch sees now. Positions here go on `reserve` further.

    The child's text belongs here in the answer, unless a `Place` names another place.
    """

    branch: BranchId


@dataclass(frozen=True, slots=True)
class Place:
    """The text of `branch`, forked earlier, belongs here in the answer."""

    branch: BranchId


@dataclass(frozen=True, slots=True)
class Join:
    """Wait until these branches have ended, and see them from here on.

    Inside an item, a branch of the same item is meant; outside, all its instances. The next segment is
    never a hole: something must be fed that sees what was joined.
    """

    branches: tuple[BranchId, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to go on: `lead` is what is written when it is chosen, then `segments`. `fed` is as in `Text`."""

    label: str
    lead: str
    segments: tuple[Segment, ...]
    fed: str | None = _bound(None)

    @property
    def fed_text(self) -> str:
        return self.lead if self.fed is None else self.fed


@dataclass(frozen=True, slots=True)
class Choose:
    """The model chooses one arm by its lead; leads are distinct and none is empty. What is fed begins with `space`."""

    field: str
    arms: tuple[Arm, ...]
    sampling: Sampling
    span: Span
    begins: Value | None = None
    space: str = _bound("")


@dataclass(frozen=True, slots=True)
class Repeat:
    """`minimum` to `maximum` items in a chain: before each, the model chooses to go on or to stop.

    `first`/`between` open an item, `stop` ends the list (`empty` when there is no item at all); where no
    choice is left they are forced. `stop` None: the end of the model's turn stops the list.
    """

    field: str
    minimum: int
    maximum: int
    first: tuple[Text | ItemNumber, ...]
    between: tuple[Text | ItemNumber, ...]
    stop: str | None
    empty: str | None
    body: tuple[Segment, ...]
    sampling: Sampling
    span: Span
    # Where `over` is given there is nothing to choose: one item per element of that list (as in `Each`), one
    # after another in this branch; `item` is the name that inputs inside the body use for the element.
    item: str = ""
    over: str | None = None
    over_hole: bool = False
    has_default_maximum: bool = False  # the program names no maximum, so the planner has chosen one
    begins: Value | None = None
    space: str = _bound("")  # fed before the first item, or before `empty`
    last_space: str = _bound("")  # the end of `stop` and `empty` that what follows begins with

    def fed_end(self, *, is_empty: bool) -> str | None:
        """What the model is fed where the list ends. None if only the end of the turn ends it."""
        if is_empty and self.empty is not None:
            return (self.space + self.empty).removesuffix(self.last_space)
        return None if self.stop is None else self.stop.removesuffix(self.last_space)


@dataclass(frozen=True, slots=True)
class Each:
    """One instance of `branch` per item of a list, all forked here.

    `over` is the path of an input, or the field of a hole that this branch has joined or written.
    `stacked`: the items are documents; all start at the same position (their `reserve` is 0).
    """

    name: str
    over: str
    over_hole: bool
    branch: BranchId
    stacked: bool
    maximum: int  # items beyond it are an error of the input, or bound the hole
    span: Span


Segment: TypeAlias = (
    TurnStart | TurnEnd | KnownText | Hole | Fork | Place | Join | Choose | Repeat | Each
)  # fmt: skip
Segments: TypeAlias = tuple[Segment, ...]

# ── branches ─────────────────────────────────────────────────────────────────────────────────────────────

# The place of a segment inside a branch: its index, then (arm or 0, index) for each level of nesting.
Address: TypeAlias = tuple[int, ...]
WHOLE: Address = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A prefix of a branch: everything before the segment at `until`; `WHOLE` is all of it."""

    branch: BranchId
    until: Address


class Overrun(Enum):
    """Where a branch goes on after a join, if what it joined is longer than what was reserved."""

    CONTINUE = "continue"  # one past the highest position that it can see
    PAPER = "paper"  # at its own counter; positions may then repeat
    CAP = "cap"  # a branch is closed at its reserve, so nothing can overrun


class Placement(Enum):
    """Where a branch stands among those that it does not see."""

    GAPS = "gaps"  # its parent leaves room for it, so that what sees both finds them one after the other
    DENSE = "dense"  # right behind what it sees: siblings share positions, and a join goes on after the longest


class Release(Enum):
    """The earliest moment at which nothing later can see a branch's own tokens."""

    AT_END = "at end"  # when it and the branches forked from it have ended
    AFTER_JOIN = "after join"  # when the last branch that joins it, and all that see that one, have ended
    NEVER = "never"  # the root, or whatever is seen until the answer is complete


@dataclass(frozen=True, slots=True)
class LockStep:
    """Token k of a branch also sees tokens 1..k of the branches of the same `group` with a lower `index`."""

    group: int
    index: int


@dataclass(frozen=True, slots=True)
class Branch:
    """`reserve` is how many positions the parent leaves for it; 0 declares that the two overlap."""

    id: BranchId
    name: str  # unique; "" for the root, "brand", "items[].price"
    parent: BranchId | None
    segments: tuple[Segment, ...]
    view: tuple[Seen, ...]  # at its start, in the order of the branches' ids
    reserve: int
    overrun: Overrun
    release: Release
    lockstep: LockStep | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """One run-time copy of a branch: `items` are the 0-based item numbers of the loops around it."""

    branch: BranchId
    items: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class PlanData:
    """All that a plan holds. `output` is the type of the answer as JSON, or None where the answer is running text."""

    template: str
    mode: Mode
    inputs: tuple[Input, ...]
    branches: tuple[Branch, ...]
    output: Type | None
    types: tuple[tuple[str, Type], ...]  # recursive types, by name
    source_name: str
    source_text: str  # so that an error while decoding can show its line
    version: int = 1
    history: History | None = None  # messages of an input, which a run adds
    auto: AutoPolicy | None = None  # the whole answer is one text in which the model opens threads
    placement: Placement = Placement.GAPS

    def branch(self, id: BranchId) -> Branch:
        return self.branches[id]

    def once(self, make: Callable[[PlanData], T]) -> T:
        """What `make` finds of this plan, made with the first call."""
        made: dict[Callable[[PlanData], Any], Any] = self.__dict__.setdefault("_made", {})
        found: T = made[make] if make in made else made.setdefault(make, make(self))
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_made"}
