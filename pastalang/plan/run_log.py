"""The log of a run: what every instance of a branch did, action by action.

A run that was decoded and a run that is only imagined have the same log: the scheduler writes it as it goes, and
`log_of` writes it for whoever answers the machine without a model. Passes, cells and positions are read from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, assert_never

from pastalang.plan.branches import ROOT, Each, Fork, Instance, PlanData, Repeat
from pastalang.plan.liveness import seen_in_lockstep
from pastalang.plan.machine import Awaited, Cursor, Draw, End, Feed, Machine, Start, Wait
from pastalang.plan.positions import after_each, after_fork
from pastalang.plan.structure import threads_in


@dataclass(frozen=True, slots=True)
class Fed:
    """So many tokens follow the last one of the branch."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Drew:
    """A token was taken from the logits of the token before. Unless it was dropped, it is fed next."""


@dataclass(frozen=True, slots=True)
class Started:
    """An instance began, `ahead` positions after the present position of its parent."""

    instance: Instance
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """Positions were left free."""

    positions: int


@dataclass(frozen=True, slots=True)
class Waited:
    """These instances had to end. From here on the branch sees them."""

    instances: tuple[Instance, ...]


Event: TypeAlias = Fed | Drew | Started | Skipped | Waited


@dataclass(frozen=True, slots=True)
class InstanceLog:
    """`confirmed` are the numbers of the instance's tokens that had been fed as drafts before they were drawn.

    Tokens that the prefix cache held have no number.
    """

    events: tuple[Event, ...]
    confirmed: frozenset[int] = frozenset()

    @property
    def draws(self) -> int:
        return sum(isinstance(event, Drew) for event in self.events)

    @property
    def tokens(self) -> int:
        return sum(event.tokens for event in self.events if isinstance(event, Fed))


@dataclass(frozen=True, slots=True)
class RunLog:
    """Of every instance that a run had, parents before their children.

    `chunk` is the most tokens that one pass feeds for one branch; None is no limit. `kept` tokens at the beginning of
    the root are in the prefix cache. No pass feeds them for this run.
    """

    instances: Mapping[Instance, InstanceLog]
    chunk: int | None = None
    kept: int = 0


def needed(plan: PlanData, run: RunLog) -> dict[Instance, InstanceLog]:
    """The log without the text that no draw sees: in a branch that nobody waits for, all after its last draw or start.

    It is never fed. The branch still waits for the branches that it joins there, and their memory is held until then.
    """
    awaited = {
        instance
        for log in run.instances.values()
        for event in log.events
        if isinstance(event, Waited)
        for instance in event.instances
    }
    joined = {instance.branch for instance in awaited} - threads_in(plan)  # a text waits for some of its threads
    seen = joined | seen_in_lockstep({branch.id: branch.lockstep for branch in plan.branches})
    return {
        instance: log if instance.branch in seen or instance in awaited else _without_tail(log)
        for instance, log in run.instances.items()
    }


def _without_tail(log: InstanceLog) -> InstanceLog:
    events = log.events
    end = len(events)
    while end and not isinstance(events[end - 1], Drew | Started):
        end -= 1
    waits = (event for event in events[end:] if isinstance(event, Waited))
    return InstanceLog((*events[:end], *waits), log.confirmed)


# ── runs without a model ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens drawn one by one with forced tokens between them: `rides[k]` forced ones directly after draw k.

    `rides[0]` come before the first draw, so there is one ride more than draws. A draw is a pass whose logits
    chose a token. `dropped`: the last token drawn was not fed as it is, because it ended the hole
    from outside (a stop, the end of the turn) or crossed its border; what was kept of it is a forced token.

    `option` is what a choice or a list has decided. Of a text in which the model opens threads, `begun` are its
    threads: the draw that completed the tag of each, and the positions that the text left for it. `waits` are the draws
    whose token waited for the threads so far: the draw, and how many there were.
    """

    rides: tuple[int, ...]
    dropped: bool = False
    option: int = 0
    begun: tuple[tuple[int, int], ...] = ()
    waits: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        assert self.rides and all(ride >= 0 for ride in self.rides), "a ride before the first draw, and one after each"
        assert self.draws or not self.dropped, "nothing was drawn that could be dropped"

    @staticmethod
    def plain(draws: int, *, option: int = 0) -> Drawn:
        return Drawn((0,) * (draws + 1), option=option)

    @property
    def draws(self) -> int:
        return len(self.rides) - 1

    @property
    def tokens(self) -> int:
        """What the branch is fed for it, if all of it is fed."""
        return sum(self.rides) + self.draws - self.dropped


class Answers(Protocol):
    """What a run without a model answers, asked in the order in which its branches come to it."""

    def feed(self, action: Feed, cursor: Cursor) -> int:
        """How many tokens a text has."""
        ...

    def draw(self, action: Draw, cursor: Cursor) -> Drawn:
        """What the model writes, and which option it takes."""
        ...

    def elements(self, loop: Each | Repeat, cursor: Cursor) -> int:
        """How many elements a known list has."""
        ...


def log_of(plan: PlanData, answers: Answers, *, chunk: int | None = None, kept: int = 0) -> RunLog:
    """The log of the run that is answered so."""
    writer = _Writer(Machine(plan), answers)
    return RunLog(writer.write(), chunk, kept)


@dataclass(slots=True)
class _Writer:
    """Moves the cursor of one instance after another. Which instances a wait means is known in the end."""

    machine: Machine
    answers: Answers
    _waiting: deque[Instance] = field(default_factory=deque)
    _known: dict[Awaited, list[Instance]] = field(default_factory=dict)

    def write(self) -> dict[Instance, InstanceLog]:
        self._start(Instance(ROOT))
        written: dict[Instance, list[Event | Wait]] = {}
        while self._waiting:
            instance = self._waiting.popleft()
            written[instance] = list(self._events(instance))
        return {
            instance: InstanceLog(tuple(self._resolved(event) for event in events))
            for instance, events in written.items()
        }

    def _resolved(self, event: Event | Wait) -> Event:
        if not isinstance(event, Wait):
            return event
        return Waited(tuple(instance for one in event.awaited for instance in self._known.get(one, ())))

    def _start(self, instance: Instance, *, ahead: int = 0) -> Started:
        for length in range(len(instance.items) + 1):
            self._known.setdefault(Awaited(instance.branch, instance.items[:length]), []).append(instance)
        self._waiting.append(instance)
        return Started(instance, ahead)

    def _events(self, instance: Instance) -> Iterator[Event | Wait]:
        cursor = self.machine.begin(instance)
        while True:
            answer = 0
            match self.machine.action(cursor):
                case Feed() as action:
                    if tokens := self.answers.feed(action, cursor):
                        yield Fed(tokens)
                case Draw() as action:
                    drawn = self.answers.draw(action, cursor)
                    yield from self._draws(drawn, cursor)
                    answer = drawn.option
                case Start(segment=segment):
                    answer = yield from self._starts(segment, cursor)
                case Wait() as wait:
                    yield wait
                case End():
                    return
                case action:
                    assert_never(action)
            cursor = cursor.after(answer)

    def _starts(self, segment: Fork | Each | Repeat, cursor: Cursor) -> Generator[Event, None, int]:
        """Returns the number of elements, where the machine asks for it."""
        match segment:
            case Fork(branch=branch):
                yield self._start(Instance(branch, cursor.items))
                yield from _skipped(after_fork(0, self.machine.plan.branch(branch).reserve).parent)
                return 0
            case Each():
                elements = self.answers.elements(segment, cursor)
                yield from self._fan_out(segment, elements, cursor)
                return elements
            case Repeat():
                return 0 if segment.over is None else self.answers.elements(segment, cursor)
            case _:
                assert_never(segment)

    def _fan_out(self, each: Each, items: int, cursor: Cursor) -> Iterator[Event]:
        at = after_each(0, self.machine.plan.branch(each.branch).reserve, items, stacked=each.stacked)
        for item, ahead in enumerate(at.children):
            yield self._start(Instance(each.branch, (*cursor.items, item)), ahead=ahead)
        yield from _skipped(at.parent)

    def _draws(self, drawn: Drawn, cursor: Cursor) -> Iterator[Event]:
        """A token whose tag waits is fed after the threads so far. A thread begins after the token of its tag."""
        if drawn.rides[0]:
            yield Fed(drawn.rides[0])
        waits, begun = dict(drawn.waits), 0
        for number, ride in enumerate(drawn.rides[1:], start=1):
            yield Drew()
            if number in waits:
                yield Waited(tuple(cursor.thread(thread) for thread in range(waits[number])))
            is_fed = not drawn.dropped or number < drawn.draws
            if ride + is_fed:
                yield Fed(ride + is_fed)
            while begun < len(drawn.begun) and drawn.begun[begun][0] == number:
                yield self._start(cursor.thread(begun))
                yield from _skipped(drawn.begun[begun][1])
                begun += 1


def _skipped(positions: int) -> Sequence[Event]:
    return (Skipped(positions),) if positions else ()
