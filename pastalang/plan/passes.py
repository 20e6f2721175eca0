"""How many forward passes a finished run had to take: `(plan, realised)` comes in, the passes of every instance go out.

    forced text     rides in the pass in which what stands before it is fed
    a draw          takes its token from the logits of pass t; the token is fed in pass t + 1, with the text behind it
    a fork          the child begins in the pass in which its parent's last token before the fork is fed
    a join          goes on in the first pass in which the last tokens of all that is joined are fed, or later
    lock-step       token k is fed when token k of every value before it is fed, or that value has ended
    chunks          a pass feeds a branch at most `chunk` tokens

The run is over with the last draw: text behind it that no later draw sees is never fed. So a run takes as
many passes as the last draw's number says, and none at all if nothing is drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from pastalang.plan.nesting import Nesting, nesting_of
from pastalang.plan.plan import (
    ROOT,
    Address,
    Branch,
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
from pastalang.plan.realised import Chosen, Decision, Drawn, Items, Outcome, Realised


@dataclass(frozen=True, slots=True)
class Span:
    """The passes of one instance, counted from 1: its first token is fed (or drawn from) in `start`, its last fed
    at the earliest in `end`; `last_draw` is 0 where nothing is drawn."""

    start: int
    end: int
    last_draw: int


@dataclass(frozen=True)
class Timing:
    spans: dict[Instance, Span]

    @property
    def passes(self) -> int:
        return max(span.last_draw for span in self.spans.values())


def passes_taken(plan: Plan, realised: Realised) -> int:
    """The forward passes that a scheduler without drafts and without admission limits takes for this run."""
    return timing_of(plan, realised).passes


def timing_of(plan: Plan, realised: Realised) -> Timing:
    return _Clockwork(plan, realised).run()


# A clock gives the instances whose end it has to know before it can go on.
_Steps: TypeAlias = Generator[Instance, None, None]


@dataclass
class _Front:
    """Lock-step: the earliest pass for token k of the next value, given all values before it."""

    passes: list[int] = field(default_factory=list)
    beyond: int = 0  # for a token that no value before has: when the last of them was known to have ended

    def at(self, index: int) -> int:
        return self.passes[index] if index < len(self.passes) else self.beyond

    def behind(self, fed: list[int], closed: int) -> _Front:
        """The front behind a value that was fed in these passes and known to have ended for pass `closed`."""
        width = max(len(self.passes), len(fed))
        passes = [max(self.at(index), fed[index] if index < len(fed) else closed) for index in range(width)]
        return _Front(passes, max(self.beyond, closed))


@dataclass
class _Clock:
    """Where one instance stands: the pass of its last fed token, or the first in which its next one can be fed."""

    branch: Branch
    instance: Instance
    at: int
    chunk: int | None
    outcomes: deque[Outcome]
    forced: deque[int]
    start: int
    used: int = 0  # tokens that pass `at` feeds already
    last_draw: int = 0
    front: _Front | None = None
    fed: list[int] = field(default_factory=list)  # in lock-step: the pass of each token

    def feed(self, tokens: int) -> None:
        if self.front is not None:
            for _ in range(tokens):
                self.wait_until(self.front.at(len(self.fed)))
                self._feed_one()
                self.fed.append(self.at)
        elif self.chunk is not None:
            for _ in range(tokens):
                self._feed_one()

    def _feed_one(self) -> None:
        if self.used == self.chunk:
            self.wait_until(self.at + 1)
        self.used += 1

    def draw(self) -> None:
        self.last_draw = self.at
        self.wait_until(self.at + 1)

    def wait_until(self, earliest: int) -> None:
        if earliest > self.at:
            self.at, self.used = earliest, 0

    def take(self, drawn: Drawn) -> None:
        self.feed(drawn.rides[0])
        for index, ride in enumerate(drawn.rides[1:], start=1):
            self.draw()
            is_fed = not (drawn.dropped and index == drawn.draws)
            self.feed(is_fed + ride)


class _Clockwork:
    """Runs every instance as far as it goes; one that has to know another's end sleeps until then."""

    def __init__(self, plan: Plan, realised: Realised) -> None:
        self._plan = plan
        self._realised = realised
        self._nesting: Nesting = nesting_of(plan)
        self._previous = _previous_in_group(plan)
        self._clocks: dict[Instance, _Clock] = {}
        self._known: dict[tuple[BranchId, tuple[int, ...]], list[Instance]] = {}  # by every prefix of the items
        self._spans: dict[Instance, Span] = {}
        self._fronts: dict[Instance, _Front] = {}
        self._ready: deque[tuple[Instance, _Steps]] = deque()
        self._sleeping: dict[Instance, list[tuple[Instance, _Steps]]] = {}

    def run(self) -> Timing:
        self._start(ROOT, (), 1)
        while self._ready:
            instance, steps = self._ready.popleft()
            self._advance(instance, steps)
        assert not self._sleeping, f"these wait for one another: {list(self._sleeping)}"
        return Timing(self._spans)

    def _start(self, id: BranchId, items: tuple[int, ...], at: int) -> None:
        instance = Instance(id, items)
        run = self._realised.runs[instance]
        clock = _Clock(
            self._plan.branch(id), instance, at, self._realised.chunk, deque(run.outcomes), deque(run.forced), at
        )  # fmt: skip
        self._clocks[instance] = clock
        for length in range(len(items) + 1):
            self._known.setdefault((id, items[:length]), []).append(instance)
        self._ready.append((instance, self._go(clock)))

    def _advance(self, instance: Instance, steps: _Steps) -> None:
        for awaited in steps:
            if awaited not in self._spans:
                self._sleeping.setdefault(awaited, []).append((instance, steps))
                return
        self._finish(self._clocks[instance])
        self._ready.extend(self._sleeping.pop(instance, ()))

    def _finish(self, clock: _Clock) -> None:
        assert not clock.outcomes, f"{clock.instance} has outcomes that the plan does not ask for"
        self._spans[clock.instance] = Span(clock.start, clock.at, clock.last_draw)
        if clock.front is not None:
            closed = clock.last_draw + 1 if clock.last_draw else clock.start
            self._fronts[clock.instance] = clock.front.behind(clock.fed, closed)

    def _go(self, clock: _Clock) -> _Steps:
        if clock.branch.lockstep is not None:
            before = self._previous[clock.branch.id]
            clock.front = _Front()
            if before is not None:
                previous = Instance(before, clock.instance.items)
                yield previous
                clock.front = self._fronts[previous]
        yield from self._all(clock, clock.branch.segments, (), clock.instance.items)

    def _all(self, clock: _Clock, segments: tuple[Segment, ...], prefix: Address, items: tuple[int, ...]) -> _Steps:
        for index, segment in enumerate(segments):
            yield from self._one(clock, segment, (*prefix, index), items)

    def _one(self, clock: _Clock, segment: Segment, address: Address, items: tuple[int, ...]) -> _Steps:
        match segment:
            case TurnStart() | TurnEnd() | Text() | InputText() | ItemNumber():
                clock.feed(clock.forced.popleft() if clock.forced else 0)
            case Hole():
                drawn = clock.outcomes.popleft()
                assert isinstance(drawn, Drawn)
                clock.take(drawn)
            case Fork(branch=branch):
                self._start(branch, items, clock.at)
            case Place():
                pass
            case Join():
                yield from self._join(clock, segment, address, items)
            case Choose(arms=arms):
                chosen = clock.outcomes.popleft()
                assert isinstance(chosen, Chosen)
                clock.take(chosen.drawn)
                yield from self._all(clock, arms[chosen.arm].segments, (*address, chosen.arm), items)
            case Repeat():
                yield from self._repeat(clock, segment, address, items)
            case Each(branch=branch):
                count = clock.outcomes.popleft()
                assert isinstance(count, Items)
                for item in range(count.count):
                    self._start(branch, (*items, item), clock.at)
            case _:
                assert_never(segment)

    def _repeat(self, clock: _Clock, repeat: Repeat, address: Address, items: tuple[int, ...]) -> _Steps:
        if repeat.over is not None:
            count = clock.outcomes.popleft()
            assert isinstance(count, Items)
            for item in range(count.count):
                yield from self._all(clock, repeat.body, (*address, 0), (*items, item))
            return
        item = 0
        while self._goes_on(clock):
            yield from self._all(clock, repeat.body, (*address, 0), (*items, item))
            item += 1

    def _goes_on(self, clock: _Clock) -> bool:
        decision = clock.outcomes.popleft()
        assert isinstance(decision, Decision)
        clock.take(decision.drawn)
        return decision.goes_on

    def _join(self, clock: _Clock, join: Join, address: Address, items: tuple[int, ...]) -> _Steps:
        """Parents come before their children in the order of ids, so what they fork is known when it is asked for."""
        for branch in sorted(join.branches):
            shared = self._nesting.common[clock.branch.id, address, branch]
            for instance in self._known.get((branch, items[:shared]), ()):
                yield instance
                clock.wait_until(self._spans[instance].end)


def _previous_in_group(plan: Plan) -> dict[BranchId, BranchId | None]:
    groups: dict[int, list[Branch]] = {}
    for branch in plan.branches:
        if branch.lockstep is not None:
            groups.setdefault(branch.lockstep.group, []).append(branch)
    previous: dict[BranchId, BranchId | None] = {}
    for members in groups.values():
        before: BranchId | None = None
        for branch in sorted(members, key=lambda branch: branch.lockstep.index if branch.lockstep else 0):
            previous[branch.id] = before
            before = branch.id
    return previous
