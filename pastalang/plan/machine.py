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

from pastalang.plan.branches import (
    Address,
    Arm,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    Instance,
    ItemNumber,
    Join,
    KnownText,
    Place,
    PlanData,
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


Forced: TypeAlias = TurnStart | TurnEnd | KnownText | Place | Opening | Closing


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

# ── points and cursors ───────────────────────────────────────────────────────────────────────────────────

GO_ON: Final = 0  # the answers to a list in which the model decides
STOP: Final = 1


@dataclass(slots=True, eq=False, repr=False)
class Point:
    """A place between two segments of a branch. A machine makes each of them once, and cursors move along them.

    `segments[index]` comes next. Behind the last segment of a list's body the branch stands between two items.
    `next` is the point behind that segment or list, None where the branch is over. `inner` are the points inside of
    it: of each arm of a choice, of a list the one between its items, and from there that of its first segment.
    `outer` is the point of the choice or list that holds this one.
    """

    address: Address
    segments: Segments
    index: int
    outer: Point | None
    next: Point | None
    inner: tuple[Point | None, ...] = ()
    action: Action | None = None  # None if the items around it matter
    waits: tuple[tuple[BranchId, int], ...] = ()  # of a join: for which branches, and how many item numbers they share

    @property
    def segment(self) -> Segment | None:
        return self.segments[self.index] if self.index < len(self.segments) else None

    @property
    def path(self) -> list[Point]:
        """The points that it is inside of, outermost first, and itself."""
        path = [self]
        while path[-1].outer is not None:
            path.append(path[-1].outer)
        return path[::-1]


@dataclass(frozen=True, slots=True)
class ListPlace:
    """Where in a list: at `item`, or behind it if the branch stands between two items; -1 is before the first.

    `elements` is how many the list goes over, if they are known.
    """

    repeat: Repeat
    item: int = -1
    elements: int | None = None

    def next(self) -> ListPlace:
        return ListPlace(self.repeat, self.item + 1, self.elements)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where an instance of a branch is: at a point, and where in the `lists` around it, outermost first.

    `items` are the numbers of the items around this place: those of the instance, then those of its own lists.
    `threads` is how many the text that is being written has begun. At the end there is no point.
    """

    instance: Instance
    point: Point | None
    items: Items = ()
    lists: tuple[ListPlace, ...] = ()
    threads: int = 0

    @property
    def has_ended(self) -> bool:
        return self.point is None

    @property
    def segment(self) -> Segment | None:
        """The segment that comes next. None between two items, and at the end."""
        return None if self.point is None else self.point.segment

    @property
    def ahead(self) -> Iterator[Segment]:
        """The segments from this place on, of the innermost place last. Those that it is inside of are among them."""
        for point in () if self.point is None else self.point.path:
            yield from point.segments[point.index :]

    @property
    def may_draw(self) -> bool:
        """Whether the model may still write something, here or in a branch that begins later."""
        return any(isinstance(segment, Hole | Choose | Repeat | Fork | Each) for segment in self.ahead)

    def after(self, answer: int = 0) -> Cursor:
        """The cursor behind its action."""
        point, lists = self.point, self.lists
        assert point is not None, "nothing comes after the end"
        if not point.inner:
            return self._at(point.next, lists)
        match point.segment:
            case Choose():
                return self._at(point.inner[answer], lists)
            case Repeat() as repeat:
                elements = None if repeat.over is None else answer
                return self._at(point.inner[0], (*lists, ListPlace(repeat, -1, elements)))
            case _:
                *around, here = lists
                if isinstance(_rounds(here)[answer], Opening):
                    return self._at(point.inner[0], (*around, here.next()))
                return self._at(point.next, tuple(around))

    def _at(self, point: Point | None, lists: tuple[ListPlace, ...]) -> Cursor:
        """The cursor at a point. Lists of known elements go on by themselves."""
        if not lists:
            return Cursor(self.instance, point, self.instance.items)
        while lists and point is not None and point.segment is None and lists[-1].elements is not None:
            *around, here = lists
            if here.item + 1 < here.elements:  # type: ignore[operator]  # checked above
                point, lists = point.inner[0], (*around, here.next())
            else:
                point, lists = point.next, tuple(around)
        inside = lists[:-1] if point is not None and point.segment is None else lists
        return Cursor(self.instance, point, (*self.instance.items, *(here.item for here in inside)), lists)

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
        if self.point is None:
            return True
        lists = len(self.instance.items)
        for depth, point in enumerate(self.point.path):
            wanted = fork[2 * depth]
            if point.index != wanted or len(fork) == 2 * depth + 1:
                return point.index > wanted
            if point is self.point:
                return False
            if isinstance(point.segment, Choose):
                if self.point.address[2 * depth + 1] != fork[2 * depth + 1]:
                    return True  # another arm was chosen
                continue
            if lists >= len(items):
                return False
            item = self.lists[lists - len(self.instance.items)].item
            if item != items[lists]:
                return item > items[lists]
            lists += 1
        return False


def _rounds(here: ListPlace) -> tuple[Opening | Closing, ...]:
    """The ways to go on between two items. Where only one is left, there is nothing to decide."""
    repeat, done = here.repeat, here.item + 1
    options: list[Opening | Closing] = []
    if done < repeat.maximum:
        options.append(Opening(repeat, done))
    if done >= repeat.minimum:
        options.append(Closing(repeat, done))
    return tuple(options)


# ── the machine ──────────────────────────────────────────────────────────────────────────────────────────

_END: Final = End()


class Machine:
    """The machine of one plan. The points of a branch are made when its first instance begins."""

    def __init__(self, plan: PlanData, nesting: Nesting | None = None) -> None:
        self.plan = plan
        self.nesting = nesting or nesting_of(plan)
        self._first: dict[BranchId, Point | None] = {}

    def begin(self, instance: Instance) -> Cursor:
        branch = instance.branch
        if branch not in self._first:
            self._first[branch] = self._points(branch, self.plan.branch(branch).segments, (), None, None)
        return Cursor(instance, self._first[branch], instance.items)

    def action(self, cursor: Cursor) -> Action:
        """What the branch does next."""
        point = cursor.point
        if point is None:
            return _END
        if point.action is not None:
            return point.action
        if point.waits:
            items = cursor.items
            return Wait(tuple([Awaited(branch, items[:shared]) for branch, shared in point.waits]))
        options = _rounds(cursor.lists[-1])
        return Draw(cursor.lists[-1].repeat, options) if len(options) > 1 else Feed(options[0])

    def _points(
        self, branch: BranchId, segments: Segments, place: Address, outer: Point | None, end: Point | None
    ) -> Point | None:
        """The first point of segments that stand at `place`; `end` is where the branch goes on behind them."""
        point = end
        for index in reversed(range(len(segments))):
            point = self._point(branch, Point((*place, index), segments, index, outer, next=point))
        return point

    def _point(self, branch: BranchId, point: Point) -> Point:
        address, segment = point.address, point.segment
        if isinstance(segment, KnownText):
            point.action = Feed(segment)
            return point
        match segment:
            case TurnStart() | TurnEnd() | Place():
                point.action = Feed(segment)
            case Hole():
                point.action = Draw(segment)
            case Choose(arms=arms):
                point.action = Draw(segment, arms)
                point.inner = tuple(
                    self._points(branch, arm.segments, (*address, number), point, point.next)
                    for number, arm in enumerate(arms)
                )
            case Repeat(body=body):
                point.action = Start(segment)
                place = (*address, 0)
                between = Point(place, body, len(body), point, point.next)
                between.inner = (self._points(branch, body, place, point, between),)
                point.inner = (between,)
            case Fork() | Each():
                point.action = Start(segment)
            case Join(branches=branches):
                # Inside an item, a branch of the same item is meant; outside, all its instances.
                common = self.nesting.common
                point.waits = tuple((awaited, common[branch, address, awaited]) for awaited in branches)
                if not any(shared for _, shared in point.waits):
                    point.action = Wait(tuple(Awaited(awaited, ()) for awaited in branches))
            case None:
                raise AssertionError("a point stands before a segment")
            case _:
                assert_never(segment)
        return point
