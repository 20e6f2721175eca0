"""The machine of plans: what a branch does next. It is the one place that walks the segments of a branch in order.

    machine.begin(instance) ──> cursor
    machine.action(cursor)  ──> Feed    known text stands here
                                Draw    the model writes a value, or decides how the branch goes on
                                Start   branches begin, or the items of a list
                                Wait    other branches have to end, and are seen from here on
                                End     the branch is over
    cursor.after(answer)    ──> the cursor behind that action

Whoever moves a cursor is its *host*: the scheduler feeds and draws tokens, a forecast takes everything as long as it
may be, another program may ask a server for one value at a time. The machine itself knows neither tokens nor texts of
inputs. A host answers with a number: the arm that was chosen, 0 for another item of a list and 1 for its end, how many
elements a list has. Other actions have no answer.

A cursor is a value. Keep one to return to its place, or move a copy to see what would come next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from pastalang.plan.plan import (
    Address,
    Arm,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    Instance,
    ItemNumber,
    Join,
    Place,
    Plan,
    Repeat,
    Segment,
    Segments,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.structure import Nesting, nesting_of

Items: TypeAlias = tuple[int, ...]

# ── actions ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Opening:
    """How an item of a list begins. `item` is its number, counted from 0."""

    repeat: Repeat
    item: int

    @property
    def parts(self) -> tuple[Text | ItemNumber, ...]:
        return self.repeat.between if self.item else self.repeat.first

    @property
    def text(self) -> str:
        return "".join(part.text if isinstance(part, Text) else str(self.item + 1) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Closing:
    """How a list of so many items ends. `text` is None where the end of the model's turn ends it."""

    repeat: Repeat
    items: int

    @property
    def text(self) -> str | None:
        return self.repeat.empty if self.items == 0 and self.repeat.empty is not None else self.repeat.stop


Forced: TypeAlias = TurnStart | TurnEnd | Text | InputText | ItemNumber | Place | Opening | Closing


@dataclass(frozen=True, slots=True)
class Feed:
    """Known text stands here. Of a `Place` it is the text of another branch, which is not fed once more."""

    segment: Forced


@dataclass(frozen=True, slots=True)
class Draw:
    """The model writes the value of a hole, chooses an arm, or decides whether a list goes on.

    The answer to a choice or a list is the number of the option that it takes.
    """

    segment: Hole | Choose | Repeat
    options: tuple[Arm | Opening | Closing, ...] = ()

    @property
    def leads(self) -> tuple[str | None, ...]:
        """What the model writes to take each option; None for the end of its turn."""
        return tuple(option.lead if isinstance(option, Arm) else option.text for option in self.options)


@dataclass(frozen=True, slots=True)
class Start:
    """Branches begin here, or the items of a list, one after another in this branch.

    The answer to an `Each`, or to a list that goes over known elements, is how many there are.
    """

    segment: Fork | Each | Repeat


@dataclass(frozen=True, slots=True)
class Awaited:
    """All instances of a branch whose items begin with these."""

    branch: BranchId
    items: Items


@dataclass(frozen=True, slots=True)
class Wait:
    """These have to end. From here on the branch sees what they have written."""

    awaited: tuple[Awaited, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The branch is over."""


Action: TypeAlias = Feed | Draw | Start | Wait | End

# ── cursors ──────────────────────────────────────────────────────────────────────────────────────────────

GO_ON: Final = 0  # the answers to a list in which the model decides
STOP: Final = 1


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in nested segments: of a branch, of an arm, or of an item of a list.

    `address` is that of the segments, `index` the one that comes next. Behind the last one of an item the branch
    stands between two items. Before the first item, `item` is -1. `elements` is how many a list goes over, if they are
    known.
    """

    segments: Segments
    address: Address = ()
    index: int = 0
    repeat: Repeat | None = None
    item: int = -1
    elements: int | None = None

    @property
    def is_at_end(self) -> bool:
        return self.index >= len(self.segments)

    @property
    def is_between_items(self) -> bool:
        return self.repeat is not None and self.index >= len(self.segments)

    def next(self) -> Frame:
        return Frame(self.segments, self.address, self.index + 1, self.repeat, self.item, self.elements)

    def next_item(self) -> Frame:
        return Frame(self.segments, self.address, 0, self.repeat, self.item + 1, self.elements)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where an instance of a branch is. `threads` is how many the text that is being written has begun."""

    instance: Instance
    frames: tuple[Frame, ...]
    threads: int = 0

    @property
    def has_ended(self) -> bool:
        return not self.frames

    @property
    def items(self) -> Items:
        """The numbers of the items around this place: those of the instance, then those of its own lists."""
        frames = self.frames
        if len(frames) == 1:
            return self.instance.items
        return (
            *self.instance.items,
            *(frame.item for frame in frames if frame.repeat is not None and not frame.is_between_items),
        )

    @property
    def lists(self) -> tuple[Frame, ...]:
        """The lists around this place, outermost first."""
        return tuple(frame for frame in self.frames if frame.repeat is not None)

    @property
    def address(self) -> Address:
        """The address of the segment that comes next; between two items, that of the list's body."""
        frame = self.frames[-1]
        return frame.address if frame.is_at_end else (*frame.address, frame.index)

    @property
    def segment(self) -> Segment | None:
        """The segment that comes next. None between two items, and at the end."""
        frame = self.frames[-1] if self.frames else None
        return None if frame is None or frame.is_at_end else frame.segments[frame.index]

    @property
    def ahead(self) -> Iterator[Segment]:
        """The segments from this place on, of the innermost place last. Those that it is inside of are among them."""
        for frame in self.frames:
            yield from frame.segments[frame.index :]

    @property
    def may_draw(self) -> bool:
        """Whether the model may still write something, here or in a branch that begins later."""
        return any(isinstance(segment, Hole | Choose | Repeat | Fork | Each) for segment in self.ahead)

    def after(self, answer: int = 0) -> Cursor:
        """The cursor behind its action."""
        *outer, frame = self.frames
        if frame.is_between_items:
            option = _rounds(frame)[answer]
            moved = (*outer, frame.next_item()) if isinstance(option, Opening) else _left(self.frames)
            return _settled(self.instance, moved)
        match frame.segments[frame.index]:
            case Choose(arms=arms):
                arm = Frame(arms[answer].segments, (*frame.address, frame.index, answer))
                return _settled(self.instance, (*self.frames, arm))
            case Repeat() as repeat:
                elements = None if repeat.over is None else answer
                body = Frame(repeat.body, (*frame.address, frame.index, 0), len(repeat.body), repeat, -1, elements)
                return _settled(self.instance, (*self.frames, body))
            case _:
                return _settled(self.instance, (*outer, frame.next()))

    def with_thread(self) -> Cursor:
        """The cursor once the text that is being written has begun another thread."""
        return replace(self, threads=self.threads + 1)

    def thread(self, number: int) -> Instance:
        """A thread of the text that is being written, in the order in which they begin."""
        text = self.segment
        assert isinstance(text, Hole) and text.threads is not None, "only a text with threads begins some"
        return Instance(text.threads, (*self.items, number))

    def has_passed(self, fork: Address, items: Items) -> bool:
        """Whether it is behind the segment at `fork`, in the items that `items` names."""
        loops = len(self.instance.items)
        for depth, frame in enumerate(self.frames):
            wanted = fork[2 * depth]
            if frame.index != wanted:
                return frame.index > wanted
            if len(fork) == 2 * depth + 1 or depth + 1 == len(self.frames):
                return False
            inner = self.frames[depth + 1]
            if inner.repeat is None:
                if inner.address[-1] != fork[2 * depth + 1]:
                    return True  # another arm was chosen
                continue
            if loops >= len(items):
                return False
            if inner.item != items[loops]:
                return inner.item > items[loops]
            loops += 1
        return False


def _left(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Behind the choice or the list that the innermost frame belongs to."""
    *outer, around, _ = frames
    return (*outer, around.next())


def _settled(instance: Instance, frames: tuple[Frame, ...]) -> Cursor:
    """A cursor at the next action: arms that are over are left, and lists of known elements go on by themselves."""
    while frames[-1].is_at_end:
        frame = frames[-1]
        if frame.repeat is not None and frame.elements is None:
            break
        if frame.repeat is not None and frame.elements is not None and frame.item + 1 < frame.elements:
            frames = (*frames[:-1], frame.next_item())
        elif len(frames) == 1:
            return Cursor(instance, ())
        else:
            frames = _left(frames)
    return Cursor(instance, frames)


def _rounds(frame: Frame) -> tuple[Opening | Closing, ...]:
    """The ways to go on between two items. Where only one is left, there is nothing to decide."""
    repeat, done = frame.repeat, frame.item + 1
    assert repeat is not None
    options: list[Opening | Closing] = []
    if done < repeat.maximum:
        options.append(Opening(repeat, done))
    if done >= repeat.minimum:
        options.append(Closing(repeat, done))
    return tuple(options)


# ── the machine ──────────────────────────────────────────────────────────────────────────────────────────


class Machine:
    """The machine of one plan."""

    def __init__(self, plan: Plan, nesting: Nesting | None = None) -> None:
        self.plan = plan
        self.nesting = nesting or nesting_of(plan)

    def begin(self, instance: Instance) -> Cursor:
        return _settled(instance, (Frame(self.plan.branch(instance.branch).segments),))

    def action(self, cursor: Cursor) -> Action:
        """What the branch does next."""
        if cursor.has_ended:
            return End()
        frame = cursor.frames[-1]
        if frame.is_between_items:
            options = _rounds(frame)
            assert frame.repeat is not None
            return Draw(frame.repeat, options) if len(options) > 1 else Feed(options[0])
        segment = frame.segments[frame.index]
        match segment:
            case TurnStart() | TurnEnd() | Text() | InputText() | ItemNumber() | Place():
                return Feed(segment)
            case Hole():
                return Draw(segment)
            case Choose(arms=arms):
                return Draw(segment, arms)
            case Fork() | Each() | Repeat():
                return Start(segment)
            case Join(branches=branches):
                return Wait(self._awaited(cursor, branches))
            case _:
                assert_never(segment)

    def _awaited(self, cursor: Cursor, branches: tuple[BranchId, ...]) -> tuple[Awaited, ...]:
        """Inside an item, a branch of the same item is meant; outside, all its instances."""
        items, common = cursor.items, self.nesting.common
        joiner, address = cursor.instance.branch, cursor.address
        return tuple(Awaited(branch, items[: common[joiner, address, branch]]) for branch in branches)
