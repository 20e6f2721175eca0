"""What every instance of a branch does in a run, step by step: the run with all its decisions made.

With all outcomes known nothing is left to decide, so joins name instances and fan-outs are written out. The
simulator executes these actions, and the arithmetic of passes counts them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from pastalang.plan.outcomes import Chosen, Decision, Drawn, Items, Outcome, RunOutcomes, Threaded
from pastalang.plan.plan import (
    ROOT,
    Address,
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
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.structure import Nesting, nesting_of


@dataclass(frozen=True, slots=True)
class Feed:
    tokens: int


@dataclass(frozen=True, slots=True)
class Draw:
    """A token is taken from the logits of what was fed last."""


@dataclass(frozen=True, slots=True)
class Start:
    """An instance starts, `ahead` positions after the present position of its parent."""

    instance: Instance
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """Positions are left free."""

    positions: int


@dataclass(frozen=True, slots=True)
class Wait:
    instances: tuple[Instance, ...]


Action: TypeAlias = Feed | Draw | Start | Skip | Wait


@dataclass(frozen=True, slots=True)
class InstanceActions:
    instance: Instance
    actions: tuple[Action, ...]

    @property
    def draws(self) -> int:
        return sum(isinstance(action, Draw) for action in self.actions)

    @property
    def tokens(self) -> int:
        return sum(action.tokens for action in self.actions if isinstance(action, Feed))


def actions_of(plan: Plan, run_outcomes: RunOutcomes) -> dict[Instance, InstanceActions]:
    """Of every instance that the run had, parents before their children."""
    writer = _Writer(plan, run_outcomes)
    writer.write()
    joined = {branch for waits in writer.waits.values() for wait in waits for branch in wait.branches}
    seen_by_others = joined | _seen_in_lock_step(plan)
    return {
        instance: InstanceActions(
            instance,
            _without_tail(writer.resolved(instance), instance.branch in seen_by_others or instance in writer.synced),
        )
        for instance in writer.actions
    }


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A join before it is known which instances there are: branches, each with the items that have to agree."""

    branches: tuple[BranchId, ...]
    prefixes: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class _Tape:
    outcomes: deque[Outcome]
    forced: deque[int]
    actions: list[Action | _Awaited] = field(default_factory=list)


class _Writer:
    def __init__(self, plan: Plan, run_outcomes: RunOutcomes) -> None:
        self._plan = plan
        self._run_outcomes = run_outcomes
        self._nesting: Nesting = nesting_of(plan)
        self._waiting: deque[Instance] = deque()
        self._known: dict[tuple[BranchId, tuple[int, ...]], list[Instance]] = {}
        self.actions: dict[Instance, list[Action | _Awaited]] = {}
        self.waits: dict[Instance, list[_Awaited]] = {}
        self.synced: set[Instance] = set()  # threads that their text has waited for

    def write(self) -> None:
        self._start(Instance(ROOT))
        while self._waiting:
            instance = self._waiting.popleft()
            run = self._run_outcomes.runs[instance]
            tape = _Tape(deque(run.outcomes), deque(run.forced))
            self._all(tape, instance.branch, self._plan.branch(instance.branch).segments, (), instance.items)
            assert not tape.outcomes, f"{instance} has outcomes that the plan does not ask for"
            self.actions[instance] = tape.actions
            self.waits[instance] = [action for action in tape.actions if isinstance(action, _Awaited)]

    def resolved(self, instance: Instance) -> tuple[Action, ...]:
        """The instance's actions, with every join naming the instances that it waits for."""
        return tuple(
            self._resolve(action) if isinstance(action, _Awaited) else action for action in self.actions[instance]
        )

    def _resolve(self, awaited: _Awaited) -> Wait:
        places = zip(awaited.branches, awaited.prefixes, strict=True)
        return Wait(tuple(instance for place in places for instance in self._known.get(place, ())))

    def _start(self, instance: Instance) -> None:
        for length in range(len(instance.items) + 1):
            self._known.setdefault((instance.branch, instance.items[:length]), []).append(instance)
        self._waiting.append(instance)

    def _all(
        self, tape: _Tape, id: BranchId, segments: tuple[Segment, ...], prefix: Address, items: tuple[int, ...]
    ) -> None:
        for index, segment in enumerate(segments):
            self._one(tape, id, segment, (*prefix, index), items)

    def _one(self, tape: _Tape, id: BranchId, segment: Segment, address: Address, items: tuple[int, ...]) -> None:
        match segment:
            case TurnStart() | TurnEnd() | Text() | InputText() | ItemNumber():
                tape.actions.append(Feed(tape.forced.popleft() if tape.forced else 1))
            case Hole(threads=int() as threads):
                text = tape.outcomes.popleft()
                assert isinstance(text, Threaded)
                self._text(tape, text, [Instance(threads, (*items, number)) for number in range(len(text.begun))])
            case Hole():
                drawn = tape.outcomes.popleft()
                assert isinstance(drawn, Drawn)
                tape.actions.extend(_drawing(drawn))
            case Fork(branch=branch):
                self._start(Instance(branch, items))
                tape.actions.append(Start(Instance(branch, items)))
                tape.actions.append(Skip(self._plan.branch(branch).reserve))
            case Place():
                pass
            case Join(branches=branches):
                shared = [self._nesting.common[id, address, branch] for branch in branches]
                tape.actions.append(_Awaited(branches, tuple(items[:count] for count in shared)))
            case Choose(arms=arms):
                chosen = tape.outcomes.popleft()
                assert isinstance(chosen, Chosen)
                tape.actions.extend(_drawing(chosen.drawn))
                self._all(tape, id, arms[chosen.arm].segments, (*address, chosen.arm), items)
            case Repeat():
                self._repeat(tape, id, segment, address, items)
            case Each():
                self._each(tape, segment, items)
            case _:
                assert_never(segment)

    def _text(self, tape: _Tape, text: Threaded, threads: list[Instance]) -> None:
        """A token whose tag waits is fed after the threads so far. A thread starts after the token of its tag."""
        waits, begins = dict(text.waits), deque(zip(text.begun, threads, strict=True))
        number = 0
        for action in _drawing(text.drawn):
            if isinstance(action, Draw):
                self._begin(tape, begins, before=number + 1)
                number += 1
                tape.actions.append(action)
                if number in waits:
                    awaited = tuple(threads[: waits[number]])
                    self.synced.update(awaited)
                    tape.actions.append(Wait(awaited))
            else:
                tape.actions.append(action)
        self._begin(tape, begins, before=number + 1)

    def _begin(self, tape: _Tape, begins: deque[tuple[tuple[int, int], Instance]], *, before: int) -> None:
        """Start the threads whose tags earlier draws have completed."""
        while begins and begins[0][0][0] < before:
            (_, room), thread = begins.popleft()
            self._start(thread)
            tape.actions += [Start(thread), Skip(room)]

    def _repeat(self, tape: _Tape, id: BranchId, repeat: Repeat, address: Address, items: tuple[int, ...]) -> None:
        item = 0
        if repeat.over is not None:
            count = tape.outcomes.popleft()
            assert isinstance(count, Items)
            for item in range(count.count):
                self._all(tape, id, repeat.body, (*address, 0), (*items, item))
            return
        while _goes_on(tape):
            self._all(tape, id, repeat.body, (*address, 0), (*items, item))
            item += 1

    def _each(self, tape: _Tape, each: Each, items: tuple[int, ...]) -> None:
        count = tape.outcomes.popleft()
        assert isinstance(count, Items)
        step = 0 if each.stacked else self._plan.branch(each.branch).reserve
        for item in range(count.count):
            instance = Instance(each.branch, (*items, item))
            self._start(instance)
            tape.actions.append(Start(instance, step * item))
        tape.actions.append(Skip(step * count.count))


def _goes_on(tape: _Tape) -> bool:
    decision = tape.outcomes.popleft()
    assert isinstance(decision, Decision)
    tape.actions.extend(_drawing(decision.drawn))
    return decision.goes_on


_DRAW, _ONE = Draw(), Feed(1)  # a run has thousands of them


def _drawing(drawn: Drawn) -> Iterator[Action]:
    if drawn.rides[0]:
        yield Feed(drawn.rides[0])
    for number, ride in enumerate(drawn.rides[1:], start=1):
        yield _DRAW
        tokens = ride + (not drawn.dropped or number < len(drawn.rides) - 1)
        if tokens:
            yield _ONE if tokens == 1 else Feed(tokens)


def _seen_in_lock_step(plan: Plan) -> set[BranchId]:
    """All values of a group but its last."""
    last: dict[int, int] = {}
    for branch in plan.branches:
        if branch.lockstep is not None:
            last[branch.lockstep.group] = max(branch.lockstep.index, last.get(branch.lockstep.group, 0))
    return {
        branch.id
        for branch in plan.branches
        if branch.lockstep is not None and branch.lockstep.index < last[branch.lockstep.group]
    }


def _without_tail(actions: tuple[Action, ...], is_seen_by_others: bool) -> tuple[Action, ...]:
    """Text that no draw sees is not fed: in a branch that is never joined, all after its last draw or fork. The branch
    still waits for the branches that it joins there, and their memory is held until then."""
    if is_seen_by_others:
        return actions
    end = len(actions)
    while end and not isinstance(actions[end - 1], Draw | Start):
        end -= 1
    return (*actions[:end], *(action for action in actions[end:] if isinstance(action, Wait)))
