"""The scheduler does what the machine of plans says, action by action: in every mode, with every way of running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pastalang.runtime.scheduler.interpreter as interpreter
import pastalang.runtime.scheduler.scheduler as scheduler
import pastalang.runtime.scheduler.threads as threads
from pastalang.plan.outcomes import Chosen, Decision, Items, Outcome, RunOutcomes, Threaded
from pastalang.plan.plan import Instance, Plan
from pastalang.plan.run_actions import Draw, Feed, Skip, Start, Wait, actions_of
from pastalang.plan.run_log import Drawn, Drew, Event, Fed, RunLog, Skipped, Started, Waited, needed
from pastalang.runtime.answer import run_outcomes_of
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.request import RequestState
from tests.plan import given_runs
from tests.properties.autos import auto_cases
from tests.properties.cases import FEW, Case, cases
from tests.properties.invariants import Watched
from tests.properties.models import KINDS, Weights
from tests.properties.repairs import repaired_cases
from tests.properties.ways import PLENTY, Way, engine_for, is_excused, ways

FAST = [kind for kind in KINDS if not isinstance(kind, Weights)]


class Logged:
    """What the scheduler does, noted where it does it."""

    def __init__(self) -> None:
        self.events: dict[BranchState, list[Event]] = {}

    def note(self, branch: BranchState, event: Event) -> None:
        if isinstance(branch.owner, RequestState) and branch not in branch.owner.probes:
            self.events.setdefault(branch, []).append(event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        append, accept, add, join = BranchState.append, interpreter.accept_token, RequestState.add, interpreter.join

        def appends(branch: BranchState, tokens: Sequence[int]) -> None:
            self.note(branch, Fed(len(tokens)))
            append(branch, tokens)  # type: ignore[arg-type]

        def accepts(branch: BranchState, *rest: Any) -> None:
            self.note(branch, Drew())
            accept(branch, *rest)

        def adds(request: RequestState, id: Any, items: Any, **more: Any) -> BranchState:
            parent = more["parent"]
            if parent is not None and request.first_answer is None:  # later ones are decoded again
                self.note(parent, Started(Instance(id, items)))
            return add(request, id, items, **more)

        def joins(branch: BranchState, joined: tuple[BranchState, ...]) -> None:
            self.note(branch, Waited(tuple(Instance(one.spec.id, one.items) for one in joined)))
            join(branch, joined)

        with ExitStack() as stack:
            for owner, name, wrapped in (
                (BranchState, "append", appends), (scheduler, "accept_token", accepts), (RequestState, "add", adds),
                (interpreter, "join", joins), (threads, "join", joins),
            ):  # fmt: skip
                stack.enter_context(patch.object(owner, name, wrapped))
            yield


def normal(events: Sequence[Event]) -> list[Event]:
    """Feeds one after another are one; positions follow from what starts; a wait for nothing is none."""
    found: list[Event] = []
    for event in events:
        match event:
            case Skipped() | Fed(tokens=0) | Waited(instances=()):
                pass
            case Fed(tokens=tokens) if found and isinstance(found[-1], Fed):
                found[-1] = Fed(found[-1].tokens + tokens)
            case Started(instance=instance):
                found.append(Started(instance))
            case _:
                found.append(event)
    return found


def answered(plan: Plan, run: RunOutcomes) -> RunLog:
    """The log of the machine, answered with the outcomes that the scheduler has recorded."""
    table = {instance: given_runs.Outcomes(tuple(map(_outcome, one.outcomes)), one.forced, one.confirmed)
             for instance, one in run.runs.items()}  # fmt: skip
    return given_runs.given_run(plan, table, chunk=run.chunk, kept=run.kept)


def _outcome(outcome: Outcome) -> given_runs.Outcome:
    match outcome:
        case Threaded(drawn=drawn, begun=begun, waits=waits):
            return Drawn(drawn.rides, drawn.dropped, begun=begun, waits=waits)
        case Chosen(arm=arm, drawn=drawn):
            return given_runs.Chosen(arm, Drawn(drawn.rides, drawn.dropped))
        case Decision(goes_on=goes_on, drawn=drawn):
            return given_runs.Decision(goes_on, Drawn(drawn.rides, drawn.dropped))
        case Items(count=count):
            return given_runs.Items(count)
        case _:
            return Drawn(outcome.rides, outcome.dropped)


def as_events(actions: Sequence[Any]) -> list[Event]:
    known: dict[type, Any] = {
        Feed: lambda one: Fed(one.tokens), Draw: lambda _: Drew(), Start: lambda one: Started(one.instance, one.ahead),
        Skip: lambda one: Skipped(one.positions), Wait: lambda one: Waited(one.instances),
    }  # fmt: skip
    return [known[type(action)](action) for action in actions]


def check_logs(case: Case, way: Way) -> int:
    """What was logged while the requests ran, what the machine says, and what the plan's actions were so far."""
    engine = engine_for(case.kind.model(way.cells or PLENTY), way, words=case.words, kind=Watched)
    for _ in range(way.runs_before):
        engine.batch(case.plan, case.requests, **case.options)
    logged = Logged()
    with logged.watching():
        found = engine.batch(case.plan, case.requests, **case.options)
    if is_excused(found[-1], way) or not isinstance(found[-1], Result):
        return 0
    request = engine.last
    run = run_outcomes_of(request, chunk=way.chunk)
    machine = answered(request.plan, run)
    first = request.branches[: request.first_answer.branches if request.first_answer else None]
    for branch in first:
        instance = Instance(branch.spec.id, branch.items)
        said, done = normal(machine.instances[instance].events), normal(logged.events.get(branch, []))
        assert done == said, f"{instance} did {done}, and the machine says {said}"
    for instance, work in actions_of(request.plan, run).items():
        said = as_events(work.actions)
        mine = needed(request.plan, machine)[instance]
        assert [one for one in mine.events if one != Waited(())] == [
            one for one in said if one not in (Fed(0), Skipped(0), Waited(()))
        ]
    return len(first)


@FEW(12)
@given(st.data())
def test_a_run_does_what_the_machine_says(data: st.DataObject) -> None:
    check_logs(data.draw(cases(kinds=FAST)), data.draw(ways()))


@FEW(6)
@given(st.data())
def test_so_does_a_run_that_is_repaired(data: st.DataObject) -> None:
    check_logs(data.draw(repaired_cases()), data.draw(ways()))


@FEW(6)
@given(st.data())
def test_so_does_a_stack(data: st.DataObject) -> None:
    check_logs(data.draw(cases(kinds=FAST, stacked=True)), data.draw(ways()))


@FEW(6)
@given(st.data())
def test_so_does_a_text_in_which_the_model_opens_threads(data: st.DataObject) -> None:
    check_logs(data.draw(auto_cases()), data.draw(ways()))


@pytest.mark.long
@FEW(3_000)
@given(st.data())
def test_so_do_thousands_of_runs(data: st.DataObject) -> None:
    case = data.draw(st.one_of(cases(kinds=FAST), repaired_cases(), cases(kinds=FAST, stacked=True), auto_cases()))
    check_logs(case, data.draw(ways()))
