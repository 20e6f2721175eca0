"""Build the timeline of a plan: every branch is walked as slowly as its limits allow."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field, replace

from pastalang.plan.branches import (
    ROOT,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    Join,
    KnownText,
    Place,
    PlanData,
    Repeat,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.draw.captions import describe_words, split_lead
from pastalang.plan.draw.timeline import (
    Bar,
    Chosen,
    Copies,
    Event,
    Forked,
    Joined,
    Lane,
    Looped,
    Prompt,
    Taken,
    Timeline,
    Words,
)
from pastalang.plan.structure import walk_plan
from pastalang.plan.token_bounds import decision_draws
from pastalang.program.program import Role


def build_timeline(plan: PlanData) -> Timeline:
    """When everything happens, if every value is as long as its limit. Threads that the model opens have no lanes."""
    walk = _TimelineBuilder(plan)
    walk.run()
    critical = walk.critical_path()
    lanes = tuple(walk.lane(branch, depth, critical) for branch, depth in walk.tree())
    passes = max((lane.last_end for lane in lanes), default=0)
    return Timeline(plan, lanes, passes, tuple(cause.name for cause in critical if cause.name))


@dataclass(frozen=True, slots=True, eq=False)
class _Cause:
    """What ended at `at`, and what had to end before it could begin. `name` is empty for a choice."""

    name: str
    at: int
    before: _Cause | None


@dataclass(frozen=True, slots=True)
class _Clock:
    """`cause` is what made it this late; `wave` is how many holes had to be filled one after another."""

    at: int
    cause: _Cause | None
    wave: int = 0

    def latest(self, other: _Clock) -> _Clock:
        later = other if other.at > self.at else self
        return _Clock(later.at, later.cause, max(self.wave, other.wave))


@dataclass(frozen=True, slots=True)
class _Noted:
    """An event as it is met: whether it is critical, and how often it is repeated, is known in the end."""

    event: Event
    cause: _Cause | None = None
    loops: tuple[int, ...] = ()


@dataclass(slots=True)
class _Track:
    """What is known of a branch while it is walked."""

    loops: tuple[int, ...]
    start: int
    rows: int = 1
    end: _Clock | None = None
    events: list[_Noted] = field(default_factory=list)
    pending: list[KnownText] = field(default_factory=list)


_Steps = Generator[tuple[BranchId, ...], None, _Clock]


class _TimelineBuilder:
    """Branches are walked as coroutines: a join gives way until the branches it names have ended."""

    def __init__(self, plan: PlanData) -> None:
        self.plan = plan
        self.tracks: dict[BranchId, _Track] = {}
        self.children: dict[BranchId, list[BranchId]] = {}
        self.loops: list[Copies | Taken | None] = []  # every loop and arm; None while it is walked
        self.threads = {s.threads for _, _, s in walk_plan(plan) if isinstance(s, Hole) and s.threads is not None}
        self.turn: TurnStart | None = None
        self.answer = max((s.index for b in plan.branches for s in b.segments if isinstance(s, TurnStart)), default=0)
        self.ready: deque[Generator[tuple[BranchId, ...], None, None]] = deque()

    def run(self) -> None:
        self._start(ROOT, _Clock(0, None), ())
        waiting: list[tuple[Generator[tuple[BranchId, ...], None, None], tuple[BranchId, ...]]] = []
        while self.ready:
            steps = self.ready.popleft()
            for needed in steps:
                waiting.append((steps, needed))
                break
            if not self.ready:
                freed = [each for each in waiting if all(map(self._is_known, each[1]))]
                waiting = [each for each in waiting if not all(map(self._is_known, each[1]))]
                self.ready.extend(steps for steps, _ in freed)
        assert not waiting, "a branch waits for something that never ends"

    def tree(self) -> list[tuple[Branch, int]]:
        """Every branch that is forked, each directly below its parent, with its depth."""
        order: list[tuple[Branch, int]] = []
        stack = [(ROOT, 0)]
        while stack:
            id, depth = stack.pop()
            order.append((self.plan.branch(id), depth))
            stack.extend((child, depth + 1) for child in reversed(self.children.get(id, [])))
        return order

    def critical_path(self) -> list[_Cause]:
        ends = [(self._last_end(id), track.end) for id, track in self.tracks.items() if track.end]
        latest = max(ends, key=lambda each: each[0])[1] if ends else None
        path: list[_Cause] = []
        cause = latest.cause if latest else None
        while cause:
            path.append(cause)
            cause = cause.before
        return path[::-1]

    def lane(self, branch: Branch, depth: int, critical: list[_Cause]) -> Lane:
        track = self.tracks[branch.id]
        assert track.end is not None
        longest = {id(cause) for cause in critical}
        events = tuple(self._finished(noted, longest) for noted in track.events)
        return Lane(branch, depth, track.start, track.end.at, track.rows, events, self._copies(track.loops))

    # ── one branch ───────────────────────────────────────────────────────────────────────────────────────

    def _start(self, branch: BranchId, clock: _Clock, loops: tuple[int, ...]) -> None:
        track = self.tracks[branch] = _Track(loops, clock.at)
        self.ready.append(self._branch(branch, track, clock))

    def _branch(self, id: BranchId, track: _Track, clock: _Clock) -> Generator[tuple[BranchId, ...], None, None]:
        track.end = None
        clock = yield from self._segments(id, self.plan.branch(id).segments, clock, 0, track.loops)
        self._flush(track, clock, 0)
        track.end = clock

    def _segments(
        self, id: BranchId, segments: tuple[Segment, ...], clock: _Clock, row: int, loops: tuple[int, ...]
    ) -> _Steps:
        track = self.tracks[id]
        for segment in segments:
            match segment:
                case Text(shown=False):
                    pass  # control tags say to the model what the picture says with lines
                case _ if isinstance(segment, KnownText):
                    track.pending.append(segment)
                case TurnStart():
                    self.turn = segment
                case TurnEnd():
                    self._flush(track, clock, row)
                case Hole():
                    clock = self._hole(track, segment, clock, row, loops)
                case Fork():
                    self._fork(id, segment.branch, clock, row, loops)
                case Place():
                    self._place(track, segment.branch, clock, row)
                case Join():
                    clock = yield from self._join(track, segment, clock, row, loops)
                case Choose():
                    clock = yield from self._choose(id, segment, clock, row, loops)
                case Repeat():
                    clock = yield from self._repeat(id, segment, clock, row, loops)
                case Each():
                    per = "document" if segment.stacked else "" if segment.over_hole else "item"
                    self.loops.append(Copies(0, segment.maximum, 0, 0, per))
                    self._fork(id, segment.branch, clock, row, (*loops, len(self.loops) - 1))
        return clock

    def _flush(self, track: _Track, clock: _Clock, row: int) -> None:
        """What was written since the last event becomes one event."""
        words = describe_words(tuple(track.pending))
        if self.turn is not None and (self.turn.role is not Role.ASSISTANT or self.turn.index < self.answer):
            track.events.append(_Noted(Prompt(self.turn.role.value, words, clock.at, row)))
            self.turn = None
        elif words:
            track.events.append(_Noted(Words(words, clock.at, row)))
        track.pending.clear()

    def _hole(self, track: _Track, hole: Hole, clock: _Clock, row: int, loops: tuple[int, ...]) -> _Clock:
        self._flush(track, clock, row)
        end = clock.at + hole.max_tokens
        cause = _Cause(hole.field, end, clock.cause)
        track.events.append(_Noted(Bar(hole, clock.at, end, row, clock.wave + 1), cause, loops))
        return _Clock(end, cause, clock.wave + 1)

    def _fork(self, id: BranchId, branch: BranchId, clock: _Clock, row: int, loops: tuple[int, ...]) -> None:
        track = self.tracks[id]
        before, lead = split_lead(tuple(track.pending))
        track.pending.clear()
        if before:
            track.events.append(_Noted(Words(before, clock.at, row)))
        track.events.append(_Noted(Forked(branch, lead, clock.at, row)))
        self.children.setdefault(id, []).append(branch)
        self._start(branch, clock, loops)

    def _place(self, track: _Track, branch: BranchId, clock: _Clock, row: int) -> None:
        """Shows a branch as forked at its place, with the text in front of it, if no pass lies between the two."""
        for index, noted in enumerate(track.events):
            event = noted.event
            if isinstance(event, Forked) and event.branch == branch and not event.lead and event.at == clock.at:
                before, lead = split_lead(tuple(track.pending))
                track.pending.clear()
                track.events[index] = _Noted(replace(event, lead=lead))
                if before:
                    track.events.append(_Noted(Words(before, clock.at, row)))

    def _join(self, track: _Track, join: Join, clock: _Clock, row: int, loops: tuple[int, ...]) -> _Steps:
        branches = tuple(branch for branch in join.branches if branch not in self.threads)
        if not branches:
            return clock
        self._flush(track, clock, row)
        if not all(map(self._is_known, branches)):
            yield branches
        latest = clock
        for branch in branches:
            latest = latest.latest(self._end_seen_from(branch, loops))
        track.events.append(_Noted(Joined(branches, clock.at, latest.at, row)))
        return latest

    def _choose(self, id: BranchId, choose: Choose, clock: _Clock, row: int, loops: tuple[int, ...]) -> _Steps:
        track = self.tracks[id]
        self._flush(track, clock, row)
        end = clock.at + decision_draws(len(choose.arms)).high
        cause = _Cause("", end, clock.cause)
        labels = tuple(arm.label for arm in choose.arms)
        track.events.append(_Noted(Chosen(labels, clock.at, end, row), cause, loops))
        chosen = latest = _Clock(end, cause, clock.wave)
        used, choice = 0, len(self.loops)
        for number, arm in enumerate(choose.arms):
            if not arm.segments:
                continue
            self.loops.append(Taken(choice, number))
            inside = (*loops, len(self.loops) - 1)
            arm_row = row if used == 0 else track.rows
            track.rows = max(track.rows, arm_row + 1)
            track.pending.append(Text(arm.lead))
            after = yield from self._segments(id, arm.segments, chosen, arm_row, inside)
            self._flush(track, after, arm_row)
            latest = latest.latest(after)
            used += 1
        return latest

    def _repeat(self, id: BranchId, repeat: Repeat, clock: _Clock, row: int, loops: tuple[int, ...]) -> _Steps:
        """The first item is walked; the others are the same, later. Going on is a choice beyond the minimum."""
        track = self.tracks[id]
        self._flush(track, clock, row)
        start, number = clock.at, len(self.loops)
        self.loops.append(None)
        chooses = repeat.over is None and repeat.minimum < repeat.maximum
        if chooses and repeat.minimum == 0:
            cause = _Cause("", start + 1, clock.cause)
            track.events.append(_Noted(Chosen(("item", "end"), start, start + 1, row), cause, (*loops, number)))
            clock = _Clock(start + 1, cause, clock.wave)
        track.pending.extend(repeat.first)
        first = yield from self._segments(id, repeat.body, clock, row, (*loops, number))
        self._flush(track, first, row)
        per = "item" if repeat.over is not None and not repeat.over_hole else ""
        rounds = 1 if per else repeat.maximum
        later_choices = repeat.maximum - max(repeat.minimum, 1) if chooses else 0
        last = max(0, (rounds - 1) * (first.at - clock.at) + later_choices)
        self.loops[number] = Copies(repeat.minimum, repeat.maximum, first.at - start, last, per)
        end = first.at + last
        track.events.append(
            _Noted(Looped(repeat.field, repeat.minimum, repeat.maximum, start, first.at, end, row, per))
        )
        return _Clock(end, first.cause, first.wave)

    # ── what has ended ───────────────────────────────────────────────────────────────────────────────────

    def _is_known(self, branch: BranchId) -> bool:
        track = self.tracks.get(branch)
        return track is not None and track.end is not None

    def _end_seen_from(self, branch: BranchId, loops: tuple[int, ...]) -> _Clock:
        """When it has ended for a waiter inside `loops`: the same item there, the last item elsewhere."""
        track = self.tracks[branch]
        assert track.end is not None
        later = [self.loops[number] for number in track.loops if number not in loops]
        last = sum(copies.last for copies in later if isinstance(copies, Copies))
        return _Clock(track.end.at + last, track.end.cause, track.end.wave)

    def _last_end(self, branch: BranchId) -> int:
        return self._end_seen_from(branch, ()).at

    def _finished(self, noted: _Noted, longest: set[int]) -> Event:
        event = noted.event
        if isinstance(event, (Bar, Chosen)):
            arms = tuple(each for number in noted.loops if isinstance(each := self.loops[number], Taken))
            return replace(event, critical=id(noted.cause) in longest, copies=self._copies(noted.loops), arms=arms)
        return event

    def _copies(self, loops: tuple[int, ...]) -> tuple[Copies, ...]:
        return tuple(each for number in loops if isinstance(each := self.loops[number], Copies))
