"""Run a plan without a model, under any legal schedule, and count tokens, cells and positions.

A step is a forward pass. The caller chooses which instances take part in it; everything else follows from the plan.
The same run gives every draw the same view under every schedule, and the engine takes as many passes as the schedule
that never waits. Tests hold both.

    forced text     rides in the pass that feeds what comes before it
    a draw          takes its token from the logits of the last fed token, in the pass t that fed it; the token
                    and the text after it are fed in pass t + 1 at the earliest
    a dropped draw  is not fed: where no text follows it, the next draw takes the same logits, in the same pass
    a start         the child begins in the pass in which its parent's last token before it is fed
    a wait          goes on in the first pass in which the last tokens of all that is awaited are fed, or later
    lock-step       token k is fed when token k of every value before it is fed, or that value has ended
    chunks          a pass feeds a branch at most `chunk` tokens
    a draft         takes no pass: the next draw is from the pass of the draw that confirmed it
    a kept prompt   takes no pass and no part of a chunk: the root's first pass feeds what follows it
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from pastalang.plan.branches import ROOT, Instance, Overrun, PlanData
from pastalang.plan.liveness import Liveness
from pastalang.plan.positions import after_join
from pastalang.plan.run_log import Drew, Event, Fed, InstanceLog, RunLog, Skipped, Started, Waited, needed


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a run cost under one schedule."""

    passes: int
    draws: int
    fed: int
    peak_cells: int  # with memory given back as early as the plan allows
    attended: int  # visible tokens, summed over the draws
    highest_position: int
    starts: Mapping[Instance, int]  # the position of the first token of each instance
    events: Mapping[
        Instance, tuple[tuple[Event, int], ...]
    ]  # of each instance, with the passes in which they were done
    views: Mapping[tuple[Instance, int], Mapping[Instance, int]]  # of each draw, if they were asked for


Allows: TypeAlias = Callable[[Instance], bool]


def simulate(plan: PlanData, run: RunLog, *, keep_views: bool = False) -> Simulated:
    """Under the schedule that never waits without need."""
    simulator = Simulator(plan, run, keep_views=keep_views)
    while not simulator.is_over:
        assert simulator.step(), "no instance can move, and yet there is something to draw"
    return simulator.result


@dataclass(slots=True)
class _InstanceState:
    """One instance while it runs."""

    instance: Instance
    work: InstanceLog
    overrun: Overrun
    position: int = 0
    seen: dict[Instance, int] = field(default_factory=dict)  # how many tokens of others it sees
    visible: int = 0  # the sum of these
    highest: int = -1  # the highest position that it sees
    done: list[int] = field(default_factory=list)  # the passes of the events that are over
    left: int = 0  # tokens of the present `Fed` that are still to be fed
    kept: int = 0  # tokens still to come that the prefix cache holds: they take no part of a chunk
    numbered: int = 0  # tokens that have been fed, kept ones left out
    fed: int = 0
    draws: int = 0
    informed: int = 0  # the last pass whose logits it knows something of: what it feeds then is fed later
    present_pass: int = 0
    fed_in_pass: int = 0

    @property
    def is_done(self) -> bool:
        return len(self.done) == len(self.work.events)

    @property
    def event(self) -> Event:
        """The next one."""
        return self.work.events[len(self.done)]

    @property
    def confirmed(self) -> int:
        """How many of the tokens that come next have been fed as drafts: by the pass that the last draw was from."""
        count = 0
        while count < self.left and self.numbered + count in self.work.confirmed:
            count += 1
        return count

    def room(self, number: int, chunk: int | None) -> int:
        """The tokens that this pass may feed of the present text."""
        if self.present_pass != number:
            self.present_pass, self.fed_in_pass = number, 0
        return self.left if chunk is None else min(self.left, self.kept + chunk - self.fed_in_pass)

    def feed(self, count: int, number: int, *, is_confirmed: bool = False) -> None:
        if count:
            is_ahead = self.position > self.highest or self.overrun is Overrun.PAPER
            assert is_ahead, f"{self.instance} goes on at {self.position}, and sees {self.highest}"
            self.highest = max(self.highest, self.position + count - 1)
        kept = min(self.kept, count)
        self.kept -= kept
        self.numbered += count - kept
        self.fed += count
        self.fed_in_pass += 0 if is_confirmed else count - kept
        self.left -= count
        self.position += count
        if not self.left:
            self.done.append(number)

    def join(self, others: list[_InstanceState], number: int) -> None:
        for other in others:
            for instance, count in (*other.seen.items(), (other.instance, other.fed)):
                if instance != self.instance and self.seen.get(instance, -1) < count:
                    self.seen[instance] = count
            self.highest = max(self.highest, other.highest)
            self.informed = max(self.informed, other.informed)
        self.visible = sum(self.seen.values())
        self.position = after_join(self.position, self.highest, self.overrun)
        self.done.append(number)


class Simulator:
    """Call `step` until `is_over`; `allows` says which instances may take part in a step."""

    def __init__(self, plan: PlanData, run: RunLog, *, keep_views: bool = False) -> None:
        self._plan = plan
        self._work = needed(plan, run)
        self._chunk = run.chunk
        self._groups = _groups_of(plan, self._work)
        self._liveness = Liveness(plan, self._work)
        self._states: dict[Instance, _InstanceState] = {}
        self._awake: dict[Instance, None] = {}
        self._ended: set[Instance] = set()
        self._sleeping: dict[Instance, list[Instance]] = {}  # the instances that wait for the end of each
        self._draws_left = sum(work.draws for work in self._work.values())
        self._views: dict[tuple[Instance, int], dict[Instance, int]] | None = {} if keep_views else None
        self._passes = self._draws = self._fed = self._live = self._peak = self._attended = 0
        self._highest = -1
        self._starts: dict[Instance, int] = {}
        self._start(Instance(ROOT))
        self._states[Instance(ROOT)].kept = run.kept

    @property
    def is_over(self) -> bool:
        """The last token has been drawn; nothing that is left would be seen."""
        return self._draws_left == 0

    @property
    def awake(self) -> tuple[Instance, ...]:
        """The instances that can take part in the next step, as far as is known before it."""
        return tuple(self._awake)

    @property
    def result(self) -> Simulated:
        return Simulated(
            passes=self._passes,
            draws=self._draws,
            fed=self._fed,
            peak_cells=self._peak,
            attended=self._attended,
            highest_position=self._highest,
            starts=self._starts,
            events={
                instance: tuple(zip(state.work.events, state.done, strict=False))
                for instance, state in self._states.items()
            },
            views=self._views or {},
        )

    def step(self, allows: Allows = lambda instance: True) -> int:
        """One pass; returns the tokens fed and drawn in it, 0 if none of the allowed instances could move."""
        before = self._fed + self._draws
        self._passes += 1
        waiting = deque(instance for instance in self._awake if allows(instance))
        while waiting:
            instance = waiting.popleft()
            if instance in self._awake:
                waiting.extend(other for other in self._advance(instance) if allows(other))
        self._peak = max(self._peak, self._live)
        self._live -= self._liveness.released()
        progress = self._fed + self._draws - before
        self._passes -= progress == 0
        return progress

    def _advance(self, instance: Instance) -> list[Instance]:
        """Moves an instance as far as this pass allows; returns the instances that may move on because of it."""
        state = self._states[instance]
        woken: list[Instance] = []
        while not state.is_done:
            match state.event:
                case Fed(tokens=tokens):
                    state.left = state.left or tokens
                    confirmed = state.confirmed
                    if not confirmed and state.informed == self._passes:
                        return woken
                    woken.extend(self._feed(state, confirmed))
                    if state.left and not confirmed:
                        return woken
                case Drew():
                    self._draw(state)
                case Started(instance=child, ahead=ahead):
                    self._start(child, parent=state, ahead=ahead)
                    woken.append(child)
                    state.done.append(self._passes)
                case Skipped(positions=positions):
                    state.position += positions
                    state.done.append(self._passes)
                case Waited(instances=awaited):
                    if self._falls_asleep(instance, awaited):
                        return woken
                    state.join([self._states[other] for other in awaited], self._passes)
                case event:
                    assert_never(event)
        if state.is_done:
            woken.extend(self._end(state))
        return woken

    def _start(self, instance: Instance, *, parent: _InstanceState | None = None, ahead: int = 0) -> None:
        state = _InstanceState(instance, self._work[instance], self._plan.branch(instance.branch).overrun)
        if parent is not None:
            state.position = parent.position + ahead
            state.seen = {**parent.seen, parent.instance: parent.fed}
            state.visible = sum(state.seen.values())
            state.highest = parent.highest
            state.informed = parent.informed
        self._states[instance] = state
        self._awake[instance] = None
        self._starts[instance] = state.position

    def _feed(self, state: _InstanceState, confirmed: int) -> list[Instance]:
        """Returns the values that waited for these tokens in lock-step."""
        room = confirmed or state.room(self._passes, self._chunk)
        group = self._groups.get(state.instance)
        count = room if group is None else self._in_step(state, room, group)
        state.feed(count, self._passes, is_confirmed=bool(confirmed))
        self._highest = max(self._highest, state.highest)
        self._fed += count
        self._live += count
        return [] if group is None or not count else [other for other in group.later if other in self._awake]

    def _in_step(self, state: _InstanceState, room: int, group: _LockStepGroup) -> int:
        """Token k waits for token k of every value before it, unless that one is known to have ended before."""
        for earlier in group.earlier:
            other = self._states.get(earlier)
            if other is None:
                return 0
            is_known = other.draws == other.work.draws and other.informed < self._passes
            if not (is_known and other.fed == other.work.tokens):
                room = min(room, max(other.fed - state.fed, 0))
        return room

    def _draw(self, state: _InstanceState) -> None:
        instance = state.instance
        group = self._groups.get(instance)
        in_step = {} if group is None else {other: min(state.fed, self._states[other].fed) for other in group.earlier}
        if self._views is not None:
            self._views[instance, state.draws] = {**state.seen, **in_step, instance: state.fed}
        self._attended += state.visible + state.fed + sum(in_step.values())
        self._draws += 1
        self._draws_left -= 1
        state.draws += 1
        state.informed = self._passes
        state.done.append(self._passes)

    def _falls_asleep(self, instance: Instance, awaited: tuple[Instance, ...]) -> bool:
        pending = next((other for other in awaited if other not in self._ended), None)
        if pending is None:
            return False
        del self._awake[instance]
        self._sleeping.setdefault(pending, []).append(instance)
        return True

    def _end(self, state: _InstanceState) -> list[Instance]:
        instance = state.instance
        del self._awake[instance]
        self._ended.add(instance)
        self._liveness.end(instance, state.fed)
        woken = self._sleeping.pop(instance, [])
        self._awake.update(dict.fromkeys(woken))
        return woken


@dataclass(frozen=True, slots=True)
class _LockStepGroup:
    """The other values in lock-step with one, by their place in the skeleton."""

    members: tuple[Instance, ...]
    index: int

    @property
    def earlier(self) -> tuple[Instance, ...]:
        return self.members[: self.index]

    @property
    def later(self) -> tuple[Instance, ...]:
        return self.members[self.index + 1 :]


def _groups_of(plan: PlanData, instances: Iterable[Instance]) -> dict[Instance, _LockStepGroup]:
    found: dict[tuple[int, tuple[int, ...]], list[tuple[int, Instance]]] = {}
    for instance in instances:
        lockstep = plan.branch(instance.branch).lockstep
        if lockstep is not None:
            found.setdefault((lockstep.group, instance.items), []).append((lockstep.index, instance))
    groups: dict[Instance, _LockStepGroup] = {}
    for numbered in found.values():
        members = tuple(instance for _, instance in sorted(numbered, key=lambda pair: pair[0]))
        groups.update({instance: _LockStepGroup(members, index) for index, instance in enumerate(members)})
    return groups
