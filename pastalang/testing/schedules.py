"""Strategy for schedules, and how a plan is executed under one: who rests in which pass, and how many may move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

from hypothesis import strategies as st

from pastalang.plan.outcomes import RunOutcomes
from pastalang.plan.plan import Instance, Plan
from pastalang.plan.simulate import Machine, Simulated

_KINDS: Final = 5  # instances are told apart by the order in which they woke up, modulo this


@dataclass(frozen=True, slots=True)
class Schedule:
    """`pauses[n]` says which kinds of instances rest in the n-th pass; behind the last one nobody rests.

    `most` bounds how many instances take part in a pass. Every schedule comes to an end.
    """

    pauses: tuple[frozenset[int], ...] = ()
    most: int | None = None

    @property
    def passes(self) -> Iterator[frozenset[int]]:
        return chain(self.pauses, repeat(frozenset()))


def schedules(plan: Plan | None = None) -> st.SearchStrategy[Schedule]:
    """Legal interleavings: pauses and admission limits, in any pass, for any branch."""
    resting = st.frozensets(st.integers(0, _KINDS - 1), max_size=_KINDS - 1)
    most = st.one_of(st.none(), st.integers(1, 3 if plan is None else len(plan.branches)))
    return st.builds(Schedule, st.lists(resting, max_size=12).map(tuple), most)


def execute(plan: Plan, run_outcomes: RunOutcomes, schedule: Schedule, *, keep_views: bool = True) -> Simulated:
    """Run it under this schedule, to its end."""
    machine = Machine(plan, run_outcomes, keep_views=keep_views)
    numbers: dict[Instance, int] = {}
    for resting in schedule.passes:
        if machine.is_over:
            break
        step(machine, resting, numbers, schedule.most)
    return machine.result


def step(machine: Machine, resting: frozenset[int], numbers: dict[Instance, int], most: int | None) -> None:
    """One pass. Where the schedule would let nobody move, all may: to rest for ever is no legal schedule."""

    def rests(instance: Instance) -> bool:
        return numbers.setdefault(instance, len(numbers)) % _KINDS in resting

    moving = [instance for instance in machine.awake if not rests(instance)][:most]

    def schedule_filter(instance: Instance) -> bool:
        return instance in moving if most is not None else not rests(instance)

    if not machine.step(schedule_filter):
        assert machine.step(), "nobody can move, and yet there is something to draw"
