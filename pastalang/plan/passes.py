"""How many forward passes a finished run had to take, and the passes of every instance.

    forced text     rides in the pass that feeds what comes before it
    a draw          takes its token from the logits of the last fed token, in the pass t that fed it; the token
                    and the text after it are fed in pass t + 1 at the earliest
    a dropped draw  is not fed: where no text follows it, the next draw takes the same logits, in the same pass
    a fork          the child begins in the pass in which its parent's last token before the fork is fed
    a join          goes on in the first pass in which the last tokens of all that is joined are fed, or later
    lock-step       token k is fed when token k of every value before it is fed, or that value has ended
    chunks          a pass feeds a branch at most `chunk` tokens
    a draft         takes no pass: the next draw is from the pass of the draw that confirmed it
    a kept prompt   takes no pass and no part of a chunk: the root's first pass feeds what follows it

This arithmetic and the simulator of `simulate.py` both read what an instance does from `run_actions.py`.
The run is over with the last draw: text after it, which no later draw sees, is never fed. So a run takes as
many passes as the last draw's number says, and none at all if nothing is drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from pastalang.plan.outcomes import RunOutcomes
from pastalang.plan.plan import ROOT, BranchId, Instance, Plan
from pastalang.plan.run_actions import Draw, Feed, InstanceActions, Skip, Start, Wait, actions_of


@dataclass(frozen=True, slots=True)
class Span:
    """The passes of one instance, counted from 1: its first token is fed (or drawn from) in `start`, its last one fed
    at the earliest in `end`; `last_draw` is 0 where nothing is drawn. Text that no draw sees has no pass."""

    start: int
    end: int
    last_draw: int


@dataclass(frozen=True)
class Timing:
    spans: Mapping[Instance, Span]

    @property
    def passes(self) -> int:
        return max(span.last_draw for span in self.spans.values())


def passes_taken(plan: Plan, run_outcomes: RunOutcomes) -> int:
    """The forward passes that a scheduler without admission limits takes for this run."""
    return timing_of(plan, run_outcomes).passes


def timing_of(plan: Plan, run_outcomes: RunOutcomes) -> Timing:
    return _PassCounter(plan, run_outcomes).run()


# A clock gives the instances whose end it has to know before it can go on.
_Steps: TypeAlias = Generator[Instance, None, None]


@dataclass
class _Front:
    """Lock-step: the earliest pass for token k of the next value, given all values before it."""

    passes: list[int] = field(default_factory=list)
    beyond: int = 0  # for a token that no value before has: when the last of them was known to have ended

    def at(self, index: int) -> int:
        return self.passes[index] if index < len(self.passes) else self.beyond

    def after(self, fed: list[int], closed: int) -> _Front:
        """The front after a value that was fed in these passes and known to have ended for pass `closed`."""
        width = max(len(self.passes), len(fed))
        passes = [max(self.at(index), fed[index] if index < len(fed) else closed) for index in range(width)]
        return _Front(passes, max(self.beyond, closed))


@dataclass
class _Clock:
    """How far one instance has come. `reached` is the pass that fed the token it goes on from: the next draw is from
    that pass. `at` is the first pass in which its next token can be fed: `reached`, or later where something drawn or
    joined has to be known first."""

    work: InstanceActions
    at: int
    reached: int
    chunk: int | None
    start: int
    kept: int = 0  # tokens still to come that take no pass
    confirmed: frozenset[int] = frozenset()  # the numbers of tokens that take no pass
    count: int = 0  # tokens so far, kept ones left out
    used: int = 0  # tokens that pass `at` feeds already
    last_draw: int = 0
    front: _Front | None = None
    fed: list[int] = field(default_factory=list)  # in lock-step: the pass of each token

    def feed(self, tokens: int) -> None:
        kept = min(self.kept, tokens)
        self.kept -= kept
        tokens -= kept
        first, self.count = self.count, self.count + tokens
        tokens -= sum(number in self.confirmed for number in range(first, self.count)) if self.confirmed else 0
        if not tokens:
            return
        if self.front is not None:
            for _ in range(tokens):
                self.wait_until(self.front.at(len(self.fed)))
                self._feed_one()
                self.fed.append(self.at)
        elif self.chunk is not None:
            for _ in range(tokens):
                self._feed_one()
        self.reached = self.at

    def _feed_one(self) -> None:
        if self.used == self.chunk:
            self.wait_until(self.at + 1)
        self.used += 1

    def draw(self) -> None:
        self.last_draw = self.reached
        self.start = min(self.start, self.reached)
        self.wait_until(self.reached + 1)

    def wait_until(self, earliest: int) -> None:
        if earliest > self.at:
            self.at, self.used = earliest, 0

    @property
    def span(self) -> Span:
        return Span(self.start, self.at, self.last_draw)


class _PassCounter:
    """Runs every instance as far as it goes; one that has to know another's end sleeps until then."""

    def __init__(self, plan: Plan, run_outcomes: RunOutcomes) -> None:
        self._plan = plan
        self._work = actions_of(plan, run_outcomes)
        self._run_outcomes = run_outcomes
        self._previous = _previous_in_group(plan)
        self._clocks: dict[Instance, _Clock] = {}
        self._spans: dict[Instance, Span] = {}
        self._fronts: dict[Instance, _Front] = {}
        self._ready: deque[tuple[Instance, _Steps]] = deque()
        self._sleeping: dict[Instance, list[tuple[Instance, _Steps]]] = {}

    def run(self) -> Timing:
        self._start(Instance(ROOT), at=1, reached=1, kept=self._run_outcomes.kept)
        while self._ready:
            instance, steps = self._ready.popleft()
            self._advance(instance, steps)
        assert not self._sleeping, f"these instances wait for one another: {list(self._sleeping)}"
        return Timing(self._spans)

    def _start(self, instance: Instance, *, at: int, reached: int, kept: int = 0) -> None:
        clock = _Clock(
            self._work[instance], at, reached, self._run_outcomes.chunk, start=at, kept=kept,
            confirmed=self._run_outcomes.runs[instance].confirmed,
        )  # fmt: skip
        self._clocks[instance] = clock
        self._ready.append((instance, self._go(clock)))

    def _advance(self, instance: Instance, steps: _Steps) -> None:
        for awaited in steps:
            if awaited not in self._spans:
                self._sleeping.setdefault(awaited, []).append((instance, steps))
                return
        self._finish(self._clocks[instance])
        self._ready.extend(self._sleeping.pop(instance, ()))

    def _finish(self, clock: _Clock) -> None:
        self._spans[clock.work.instance] = clock.span
        if clock.front is not None:
            closed = clock.last_draw + 1 if clock.last_draw else clock.start
            self._fronts[clock.work.instance] = clock.front.after(clock.fed, closed)

    def _go(self, clock: _Clock) -> _Steps:
        instance = clock.work.instance
        if instance.branch in self._previous:
            before = self._previous[instance.branch]
            clock.front = _Front()
            if before is not None:
                previous = Instance(before, instance.items)
                yield previous
                clock.front = self._fronts[previous]
        for action in clock.work.actions:
            match action:
                case Feed(tokens=tokens):
                    clock.feed(tokens)
                case Draw():
                    clock.draw()
                case Start(instance=child):
                    self._start(child, at=clock.at, reached=clock.reached)
                case Skip():
                    pass
                case Wait(instances=awaited):
                    for other in awaited:
                        yield other
                        clock.wait_until(self._spans[other].end)
                case _:
                    assert_never(action)


def _previous_in_group(plan: Plan) -> dict[BranchId, BranchId | None]:
    """Of every value in lock-step, the one before it."""
    numbered = sorted(
        (branch.lockstep.group, branch.lockstep.index, branch.id)
        for branch in plan.branches
        if branch.lockstep is not None
    )
    previous: dict[BranchId, BranchId | None] = {}
    for place, (group, _, id) in enumerate(numbered):
        is_first = place == 0 or numbered[place - 1][0] != group
        previous[id] = None if is_first else numbered[place - 1][2]
    return previous
