"""A step machine without a model: it executes a run under any legal schedule, counting tokens, cells and positions.

A step is a forward pass. Who takes part in it is up to the caller; everything else follows from the plan. The same
run gives every draw the same view under every schedule, and under the schedule that never waits it takes
`passes_taken` steps: both are tested, not assumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from pastalang.plan.liveness import Liveness
from pastalang.plan.outcomes import RunOutcomes
from pastalang.plan.plan import ROOT, Instance, Overrun, Plan
from pastalang.plan.positions import after_join
from pastalang.plan.run_actions import Draw, Feed, InstanceActions, Skip, Start, Wait, actions_of


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
    views: Mapping[tuple[Instance, int], Mapping[Instance, int]]  # of each draw, if they were asked for


Allows: TypeAlias = Callable[[Instance], bool]


def simulate(plan: Plan, run_outcomes: RunOutcomes, *, keep_views: bool = False) -> Simulated:
    """Under the schedule that never waits without need."""
    machine = Machine(plan, run_outcomes, keep_views=keep_views)
    while not machine.is_over:
        assert machine.step(), "nobody can move, and yet there is something to draw"
    return machine.result


@dataclass(slots=True)
class _Actor:
    """One instance while it runs."""

    script: InstanceActions
    overrun: Overrun
    position: int = 0
    seen: dict[Instance, int] = field(default_factory=dict)  # how many tokens of others it sees
    visible: int = 0  # the sum of these
    highest: int = -1  # the highest position that it sees
    cursor: int = 0
    left: int = 0  # tokens of the present `Feed` that are still to be fed
    kept: int = 0  # tokens still to come that take no part of a chunk
    fed: int = 0
    draws: int = 0
    informed: int = 0  # the last pass whose logits it knows something of: what it feeds then is fed later
    present_pass: int = 0
    fed_in_pass: int = 0

    @property
    def is_done(self) -> bool:
        return self.cursor == len(self.script.actions)

    def room(self, number: int, chunk: int | None) -> int:
        """The tokens that this pass may feed of the present text."""
        if self.present_pass != number:
            self.present_pass, self.fed_in_pass = number, 0
        return self.left if chunk is None else min(self.left, self.kept + chunk - self.fed_in_pass)

    def feed(self, count: int) -> None:
        if count:
            is_ahead = self.position > self.highest or self.overrun is Overrun.PAPER
            assert is_ahead, f"{self.script.instance} goes on at {self.position}, and sees {self.highest}"
            self.highest = max(self.highest, self.position + count - 1)
        kept = min(self.kept, count)
        self.kept -= kept
        self.fed += count
        self.fed_in_pass += count - kept
        self.left -= count
        self.position += count
        self.cursor += self.left == 0

    def join(self, others: list[_Actor]) -> None:
        for other in others:
            for instance, count in (*other.seen.items(), (other.script.instance, other.fed)):
                if instance != self.script.instance and self.seen.get(instance, -1) < count:
                    self.seen[instance] = count
            self.highest = max(self.highest, other.highest)
            self.informed = max(self.informed, other.informed)
        self.visible = sum(self.seen.values())
        self.position = after_join(self.position, self.highest, self.overrun)
        self.cursor += 1


class Machine:
    """Call `step` until `is_over`; `allows` says who may take part in a step."""

    def __init__(self, plan: Plan, run_outcomes: RunOutcomes, *, keep_views: bool = False) -> None:
        self._plan = plan
        self._scripts = actions_of(plan, run_outcomes)
        self._chunk = run_outcomes.chunk
        self._groups = _groups_of(plan, self._scripts)
        self._holders = Liveness(plan, self._scripts)
        self._actors: dict[Instance, _Actor] = {}
        self._awake: dict[Instance, None] = {}
        self._ended: set[Instance] = set()
        self._sleeping: dict[Instance, list[Instance]] = {}  # who waits for the end of whom
        self._draws_left = sum(script.draws for script in self._scripts.values())
        self._views: dict[tuple[Instance, int], dict[Instance, int]] | None = {} if keep_views else None
        self._passes = self._draws = self._fed = self._live = self._peak = self._attended = 0
        self._highest = -1
        self._starts: dict[Instance, int] = {}
        self._start(Instance(ROOT))
        self._actors[Instance(ROOT)].kept = run_outcomes.kept

    @property
    def is_over(self) -> bool:
        """The last token has been drawn; nothing that is left would be seen."""
        return self._draws_left == 0

    @property
    def awake(self) -> tuple[Instance, ...]:
        """Who can take part in the next step, as far as is known before it."""
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
            views=self._views or {},
        )

    def step(self, allows: Allows = lambda instance: True) -> int:
        """One pass; gives the tokens fed and drawn in it. If nobody who was allowed to could move there was none."""
        before = self._fed + self._draws
        self._passes += 1
        waiting = deque(instance for instance in self._awake if allows(instance))
        while waiting:
            instance = waiting.popleft()
            if instance in self._awake:
                waiting.extend(other for other in self._advance(instance) if allows(other))
        self._peak = max(self._peak, self._live)
        self._live -= self._holders.released()
        progress = self._fed + self._draws - before
        self._passes -= progress == 0
        return progress

    def _advance(self, instance: Instance) -> list[Instance]:
        """As far as this pass allows; gives those who may move on because of it."""
        actor = self._actors[instance]
        woken: list[Instance] = []
        while not actor.is_done:
            match actor.script.actions[actor.cursor]:
                case Feed(tokens=tokens):
                    if tokens and actor.informed == self._passes:
                        return woken
                    actor.left = actor.left or tokens
                    woken.extend(self._feed(actor))
                    if actor.left:
                        return woken
                case Draw():
                    self._draw(actor)
                case Start(instance=child, ahead=ahead):
                    self._start(child, parent=actor, ahead=ahead)
                    woken.append(child)
                    actor.cursor += 1
                case Skip(positions=positions):
                    actor.position += positions
                    actor.cursor += 1
                case Wait(instances=awaited):
                    if self._falls_asleep(instance, awaited):
                        return woken
                    actor.join([self._actors[other] for other in awaited])
                case action:
                    assert_never(action)
        if actor.is_done:
            woken.extend(self._end(actor))
        return woken

    def _start(self, instance: Instance, *, parent: _Actor | None = None, ahead: int = 0) -> None:
        actor = _Actor(self._scripts[instance], self._plan.branch(instance.branch).overrun)
        if parent is not None:
            actor.position = parent.position + ahead
            actor.seen = {**parent.seen, parent.script.instance: parent.fed}
            actor.visible = sum(actor.seen.values())
            actor.highest = parent.highest
            actor.informed = parent.informed
        self._actors[instance] = actor
        self._awake[instance] = None
        self._starts[instance] = actor.position

    def _feed(self, actor: _Actor) -> list[Instance]:
        """Gives the values that waited for these tokens in lock-step."""
        room = actor.room(self._passes, self._chunk)
        group = self._groups.get(actor.script.instance)
        count = room if group is None else self._in_step(actor, room, group)
        actor.feed(count)
        self._highest = max(self._highest, actor.highest)
        self._fed += count
        self._live += count
        return [] if group is None or not count else [other for other in group.later if other in self._awake]

    def _in_step(self, actor: _Actor, room: int, group: _Group) -> int:
        """Token k waits for token k of every value before it, unless that one is known to have ended before."""
        for earlier in group.earlier:
            other = self._actors.get(earlier)
            if other is None:
                return 0
            is_known = other.draws == other.script.draws and other.informed < self._passes
            if not (is_known and other.fed == other.script.tokens):
                room = min(room, max(other.fed - actor.fed, 0))
        return room

    def _draw(self, actor: _Actor) -> None:
        instance = actor.script.instance
        group = self._groups.get(instance)
        beside = {} if group is None else {other: min(actor.fed, self._actors[other].fed) for other in group.earlier}
        if self._views is not None:
            self._views[instance, actor.draws] = {**actor.seen, **beside, instance: actor.fed}
        self._attended += actor.visible + actor.fed + sum(beside.values())
        self._draws += 1
        self._draws_left -= 1
        actor.draws += 1
        actor.informed = self._passes
        actor.cursor += 1

    def _falls_asleep(self, instance: Instance, awaited: tuple[Instance, ...]) -> bool:
        pending = next((other for other in awaited if other not in self._ended), None)
        if pending is None:
            return False
        del self._awake[instance]
        self._sleeping.setdefault(pending, []).append(instance)
        return True

    def _end(self, actor: _Actor) -> list[Instance]:
        instance = actor.script.instance
        del self._awake[instance]
        self._ended.add(instance)
        self._holders.end(instance, actor.fed)
        woken = self._sleeping.pop(instance, [])
        self._awake.update(dict.fromkeys(woken))
        return woken


@dataclass(frozen=True, slots=True)
class _Group:
    """The other values in lock-step with one, by their place in the skeleton."""

    members: tuple[Instance, ...]
    index: int

    @property
    def earlier(self) -> tuple[Instance, ...]:
        return self.members[: self.index]

    @property
    def later(self) -> tuple[Instance, ...]:
        return self.members[self.index + 1 :]


def _groups_of(plan: Plan, scripts: Mapping[Instance, InstanceActions]) -> dict[Instance, _Group]:
    found: dict[tuple[int, tuple[int, ...]], list[tuple[int, Instance]]] = {}
    for instance in scripts:
        lockstep = plan.branch(instance.branch).lockstep
        if lockstep is not None:
            found.setdefault((lockstep.group, instance.items), []).append((lockstep.index, instance))
    groups: dict[Instance, _Group] = {}
    for numbered in found.values():
        members = tuple(instance for _, instance in sorted(numbered, key=lambda pair: pair[0]))
        groups.update({instance: _Group(members, index) for index, instance in enumerate(members)})
    return groups
