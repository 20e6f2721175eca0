"""Runs whose outcomes a test writes down: of each instance, in the order in which it comes to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from pastalang import Plan
from pastalang.plan.branches import Choose, Each, Hole, Instance, Place, Repeat
from pastalang.plan.machine import GO_ON, STOP, Closing, Cursor, Draw, Feed, Opening
from pastalang.plan.run_log import Drawn, Drew, Fed, InstanceLog, RunLog, log_of
from pastalang.plan.simulate import Simulated


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arm of a `Choose`; what was drawn and forced to write its lead."""

    arm: int
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a `Repeat` had another item; what was drawn and forced to write its opening, or the list's end.

    A repeat of n items has n + 1 decisions; those without a choice have no draws.
    """

    goes_on: bool
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Items:
    """How many elements the list of an `Each` had (or of a `Repeat` that goes over a list)."""

    count: int


Outcome: TypeAlias = Drawn | Chosen | Decision | Items


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`outcomes` of holes, choices, lists and fan-outs, and `forced` tokens of turns, texts and data of one instance.

    Where `forced` is left out, every forced segment counts one token.
    """

    outcomes: tuple[Outcome, ...] = ()
    forced: tuple[int, ...] = ()
    confirmed: frozenset[int] = frozenset()


def given_run(
    plan: Plan, runs: Mapping[Instance, Outcomes], *, chunk: int | None = None, kept: int = 0
) -> RunLog:  # fmt: skip
    """The run that has these outcomes."""
    answers = _Given(runs)
    found = log_of(plan, answers, chunk=chunk, kept=kept)
    assert not any(answers.left[instance] for instance in found.instances), "the plan asks for fewer outcomes"
    confirmed = {
        instance: InstanceLog(log.events, runs[instance].confirmed) for instance, log in found.instances.items()
    }
    return replace(found, instances=confirmed)


def first_pass(done: Simulated, instance: Instance) -> int:
    """The pass in which the first token of an instance was fed, or drawn from."""
    return next(number for event, number in done.events[instance] if isinstance(event, Fed | Drew))


def last_draw(done: Simulated, instance: Instance) -> int:
    """The pass that the last token of an instance was drawn from."""
    return [number for event, number in done.events[instance] if isinstance(event, Drew)][-1]


class _Given:
    def __init__(self, runs: Mapping[Instance, Outcomes]) -> None:
        self.left = {instance: deque(run.outcomes) for instance, run in runs.items()}
        self._forced = {instance: deque(run.forced) for instance, run in runs.items()}

    def feed(self, action: Feed, cursor: Cursor) -> int:
        match action.segment:
            case Place():
                return 0
            case Opening() | Closing():
                decision = self.left[cursor.instance].popleft()
                assert isinstance(decision, Decision), f"{decision} is no decision"
                assert decision.goes_on is isinstance(action.segment, Opening)
                assert not decision.drawn.draws, "there is nothing to decide"
                return decision.drawn.tokens
            case _:
                forced = self._forced[cursor.instance]
                return forced.popleft() if forced else 1

    def draw(self, action: Draw, cursor: Cursor) -> Drawn:
        outcome = self.left[cursor.instance].popleft()
        match action.segment, outcome:
            case Hole(), Drawn():
                return outcome
            case Choose(), Chosen(arm=arm, drawn=drawn):
                return replace(drawn, option=arm)
            case Repeat(), Decision(goes_on=goes_on, drawn=drawn):
                return replace(drawn, option=GO_ON if goes_on else STOP)
        raise AssertionError(f"{outcome} is no outcome of {action.segment}")

    def elements(self, loop: Each | Repeat, cursor: Cursor) -> int:
        items = self.left[cursor.instance].popleft()
        assert isinstance(items, Items)
        return items.count
