"""When everything in a plan happens at the latest: lanes of events, in forward passes.

Time is counted in passes, as if every value were as long as its limit: a hole of 12 tokens takes 12, forced
text takes none (it rides along), a choice takes one for each arm but one, a join waits for the slowest. Loops are
shown by their first item; `period` says how much later the next one begins.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pastalang.plan.branches import (
    ROOT,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    Join,
    Mode,
    Placement,
    PlanData,
    Repeat,
    Segments,
)
from pastalang.plan.dependencies import dependency_graph
from pastalang.plan.run_log import Drew
from pastalang.plan.simulate import Simulated
from pastalang.plan.structure import threads_in, walk_plan
from pastalang.plan.token_bounds import decision_draws
from pastalang.values.describe import caption, counted
from pastalang.values.paths import MAIN


@dataclass(frozen=True, slots=True)
class Copies:
    """A loop around something: its second instance begins `period` after the first, its last `last` after it.

    Where data says how many there are, `per` names what there is one of, and the figures are those of one.
    """

    minimum: int
    maximum: int
    period: int
    last: int
    per: str = ""

    def __str__(self) -> str:
        return f"×(one per {self.per})" if self.per else f"×({self.minimum}..{self.maximum})"


@dataclass(frozen=True, slots=True)
class Bar:
    """A hole, as long as its limit; `wave` counts the holes that come before it, one after another, and itself."""

    hole: Hole
    start: int
    end: int
    row: int
    wave: int
    critical: bool  # it is on the longest path


@dataclass(frozen=True, slots=True)
class Forked:
    branch: BranchId
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class Joined:
    """This lane waits from `start` until `at`, when the last of `branches` has ended."""

    branches: tuple[BranchId, ...]
    start: int
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """One of several ways to go on; arms after the first go on in rows of their own."""

    labels: tuple[str, ...]
    start: int
    row: int


@dataclass(frozen=True, slots=True)
class Looped:
    """A list in this lane; its last item ends at `end`."""

    copies: Copies
    start: int
    end: int
    row: int


Event: TypeAlias = Bar | Forked | Joined | Chosen | Looped


@dataclass(frozen=True, slots=True)
class Lane:
    """One branch; `end` is that of its first instance. Lanes are below the one they are forked from."""

    branch: Branch
    depth: int
    start: int
    end: int
    rows: int
    events: tuple[Event, ...]
    copies: tuple[Copies, ...]  # outermost first

    @property
    def loops(self) -> tuple[Copies, ...]:
        """The loops around it whose length the model chooses."""
        return tuple(copies for copies in self.copies if not copies.per)

    @property
    def title(self) -> str:
        return self.branch.name or MAIN

    @property
    def times(self) -> str:
        """How often it occurs; that it does so in every document is said once, at the document."""
        return " ".join(str(copies) for copies in self.copies if copies.per != "document" or self.depth == 1)

    @property
    def last_end(self) -> int:
        """When its last instance has ended."""
        return self.end + sum(each.last for each in self.copies)

    @property
    def bars(self) -> tuple[Bar, ...]:
        return tuple(event for event in self.events if isinstance(event, Bar))

    def words(self, bar: Bar) -> str:
        """What is decoded there; by its type alone where the lane has its name."""
        name = bar.hole.field.removeprefix(self.branch.name).lstrip("[].") or bar.hole.field
        kind = caption(bar.hole.type)
        return kind if bar.hole.field == self.branch.name else f"{name}: {kind}"


@dataclass(frozen=True, slots=True)
class Timeline:
    plan: PlanData
    lanes: tuple[Lane, ...]  # a parent is directly above its children, in the order of the forks

    @property
    def passes(self) -> int:
        return max((lane.last_end for lane in self.lanes), default=0)

    @property
    def bars(self) -> tuple[Bar, ...]:
        return tuple(bar for lane in self.lanes for bar in lane.bars)

    @property
    def critical(self) -> tuple[str, ...]:
        """The values of the longest path, in order."""
        longest = sorted((bar for bar in self.bars if bar.critical), key=lambda bar: bar.start)
        return tuple(dict.fromkeys(bar.hole.field for bar in longest))


def build_timeline(plan: PlanData) -> Timeline:
    """When everything happens, if every value is as long as its limit. Threads that the model opens have no lanes."""
    walk = _Walk(plan)
    walk.run()
    return Timeline(plan, tuple(walk.lanes()))


@dataclass(slots=True)
class _Track:
    """What is known of a branch while it is walked."""

    branch: Branch
    loops: tuple[int, ...]
    start: int
    rows: int = 1
    end: int | None = None
    events: list[Event] = field(default_factory=list)
    children: list[BranchId] = field(default_factory=list)


_Steps: TypeAlias = Generator[tuple[BranchId, ...], None, int]  # yields branches that have to end, returns the time


class _Walk:
    """Branches are walked as coroutines: a join gives way until the branches it names have ended."""

    def __init__(self, plan: PlanData) -> None:
        self.plan = plan
        self.nodes = dependency_graph(plan).nodes
        self.tracks: dict[BranchId, _Track] = {}
        self.loops: list[Copies | None] = []  # None while the loop is walked
        self.threads = threads_in(plan)
        self.ready: deque[_Steps] = deque()

    def run(self) -> None:
        self._start(ROOT, 0, ())
        waiting: list[tuple[_Steps, tuple[BranchId, ...]]] = []
        while self.ready:
            steps = self.ready.popleft()
            for needed in steps:
                waiting.append((steps, needed))
                break
            if not self.ready:
                freed = [each for each in waiting if self._have_ended(each[1])]
                waiting = [each for each in waiting if not self._have_ended(each[1])]
                self.ready.extend(steps for steps, _ in freed)
        assert not waiting, "a branch waits for something that never ends"

    def lanes(self) -> Iterator[Lane]:
        """Each directly below its parent."""
        stack = [(ROOT, 0)]
        while stack:
            id, depth = stack.pop()
            track = self.tracks[id]
            assert track.end is not None
            copies = tuple(copies for number in track.loops if (copies := self.loops[number]) is not None)
            yield Lane(track.branch, depth, track.start, track.end, track.rows, tuple(track.events), copies)
            stack.extend((child, depth + 1) for child in reversed(track.children))

    def _start(self, id: BranchId, at: int, loops: tuple[int, ...]) -> None:
        track = self.tracks[id] = _Track(self.plan.branch(id), loops, at)
        self.ready.append(self._branch(track))

    def _branch(self, track: _Track) -> _Steps:
        track.end = yield from self._segments(track, track.branch.segments, track.start, 0, track.loops)
        return track.end

    def _segments(self, track: _Track, segments: Segments, at: int, row: int, loops: tuple[int, ...]) -> _Steps:
        for segment in segments:
            match segment:
                case Hole():
                    node = self.nodes[segment.field]
                    end = at + segment.max_tokens
                    track.events.append(Bar(segment, at, end, row, node["wave"], node["critical"]))
                    at = end
                case Fork():
                    self._fork(track, segment.branch, at, row, loops)
                case Each():
                    per = "document" if segment.stacked else "" if segment.over_hole else "item"
                    self.loops.append(Copies(0, segment.maximum, 0, 0, per))
                    self._fork(track, segment.branch, at, row, (*loops, len(self.loops) - 1))
                case Join():
                    at = yield from self._join(track, segment, at, row, loops)
                case Choose():
                    at = yield from self._choose(track, segment, at, row, loops)
                case Repeat():
                    at = yield from self._repeat(track, segment, at, row, loops)
                case _:
                    pass  # forced text takes no pass
        return at

    def _fork(self, track: _Track, branch: BranchId, at: int, row: int, loops: tuple[int, ...]) -> None:
        track.events.append(Forked(branch, at, row))
        track.children.append(branch)
        self._start(branch, at, loops)

    def _join(self, track: _Track, join: Join, at: int, row: int, loops: tuple[int, ...]) -> _Steps:
        branches = tuple(branch for branch in join.branches if branch not in self.threads)
        if not branches:
            return at
        if not self._have_ended(branches):
            yield branches
        latest = max(at, *(self._end_seen_from(branch, loops) for branch in branches))
        track.events.append(Joined(branches, at, latest, row))
        return latest

    def _choose(self, track: _Track, choose: Choose, at: int, row: int, loops: tuple[int, ...]) -> _Steps:
        track.events.append(Chosen(tuple(arm.label for arm in choose.arms), at, row))
        chosen = latest = at + decision_draws(len(choose.arms)).high
        arms = [arm.segments for arm in choose.arms if arm.segments]
        for number, segments in enumerate(arms):
            arm_row = row if number == 0 else track.rows
            track.rows = max(track.rows, arm_row + 1)
            latest = max(latest, (yield from self._segments(track, segments, chosen, arm_row, loops)))
        return latest

    def _repeat(self, track: _Track, repeat: Repeat, start: int, row: int, loops: tuple[int, ...]) -> _Steps:
        """The first item is walked; the others are the same, later. Going on is a choice beyond the minimum."""
        number, at = len(self.loops), start
        self.loops.append(None)
        chooses = repeat.over is None and repeat.minimum < repeat.maximum
        if chooses and repeat.minimum == 0:
            track.events.append(Chosen(("item", "end"), start, row))
            at += 1
        first = yield from self._segments(track, repeat.body, at, row, (*loops, number))
        per = "item" if repeat.over is not None and not repeat.over_hole else ""
        rounds = 1 if per else repeat.maximum
        later_choices = repeat.maximum - max(repeat.minimum, 1) if chooses else 0
        last = max(0, (rounds - 1) * (first - at) + later_choices)
        copies = self.loops[number] = Copies(repeat.minimum, repeat.maximum, first - start, last, per)
        track.events.append(Looped(copies, start, first + last, row))
        return first + last

    def _have_ended(self, branches: tuple[BranchId, ...]) -> bool:
        return all(branch in self.tracks and self.tracks[branch].end is not None for branch in branches)

    def _end_seen_from(self, branch: BranchId, loops: tuple[int, ...]) -> int:
        """When it has ended for a waiter inside `loops`: the same item there, the last item elsewhere."""
        track = self.tracks[branch]
        assert track.end is not None
        around = [self.loops[number] for number in track.loops if number not in loops]
        return track.end + sum(copies.last for copies in around if copies is not None)


MOST_ITEMS = 16  # of a list, in the run that is simulated
MODES: Mapping[Mode, str] = {
    Mode.STRICT: "strict",
    Mode.LOCKSTEP: "in lock-step",
    Mode.SEQUENTIAL: "one value after another",
}


def describe_plan(timeline: Timeline) -> str:
    plan = timeline.plan
    kind = "running text" if plan.output is None else "JSON"
    how = MODES[plan.mode] if plan.placement is Placement.GAPS else f"{MODES[plan.mode]}, {plan.placement.value}"
    return f"{kind}, {how}: {counted(len(timeline.bars), 'value')} in {counted(len(timeline.lanes), 'branch')}"


def measured_with(plan: PlanData) -> str:
    """What figures come from a simulated run, which does not make very long lists as long as they may be."""
    lists = [segment for _, _, segment in walk_plan(plan) if isinstance(segment, Repeat | Each)]
    longer = any(each.maximum > MOST_ITEMS and (each.over is None or each.over_hole) for each in lists)
    return "worst case, excluding inputs" + (f", memory with {MOST_ITEMS} items" if longer else "")


def busiest(run: Simulated) -> int:
    """The most tokens that are drawn in one pass."""
    drawn = Counter(number for events in run.events.values() for event, number in events if isinstance(event, Drew))
    return max(drawn.values(), default=0)
