"""The checks of the invariants: what was drawn comes in, the first breach fails, what held is counted.

One drawn case is checked for several invariants; for each of them it is one case.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jsonschema
from hypothesis import assume
from hypothesis import strategies as st

from pastalang import Done, Engine, Failed, Invalid, Mode, Result
from pastalang.plan.branches import Overrun, Placement
from pastalang.plan.simulate import simulate
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.partial_text import text_so_far
from pastalang.runtime.scheduler.state import RequestState
from pastalang.testing import check_schedule_changes_nothing, schedules
from pastalang.values.to_schema import schema_of
from tests import oracle
from tests.oracle.differential import check_answers, check_same
from tests.properties.autos import auto_cases
from tests.properties.cases import Case, Expected, cases, inputs_for, is_refused, plans
from tests.properties.disturbed import Disturbed, Failing
from tests.properties.models import KINDS, Kind, Weights
from tests.properties.repairs import repaired_cases
from tests.properties.tally import Invariant, count
from tests.properties.ways import PLENTY, Outcome, Way, check_nothing_is_left, engine_for, is_excused, ways
from tests.runtime.float64 import wide_softmax


class Watched(Engine):
    """Keeps what its last request was."""

    last: RequestState

    def outcome_of(self, request: RequestState) -> Any:
        self.last = request
        return super().outcome_of(request)


def check_everything(data: st.DataObject, *, kinds: Sequence[Kind] = KINDS, different_ways: int = 2) -> None:
    """One slow decoding of each request; a run that is watched; and other runs of all of them together."""
    case = data.draw(cases(kinds=kinds))
    with wide_softmax():
        check_watched(data, case)
        for way in data.draw(st.lists(ways(), min_size=different_ways, max_size=different_ways, unique=True)):
            found = run(case, case.kind.model(way.cells or PLENTY), way)
            check_all(case, found, way)


def check_all(case: Case, found: Sequence[Outcome], way: Way) -> None:
    answered = 0
    for number, one in enumerate(found):
        if not is_excused(one, way):
            check_same(one, case.expected(number))
            answered += isinstance(one, Result | Invalid)
    if answered:
        count(Invariant.CONFLUENCE, case.key, way)


def run(case: Case, model: Model, way: Way) -> list[Outcome]:
    """What each request comes to. Afterwards every cell is free, or keeps a prompt."""
    engine = engine_for(model, way, words=case.words)
    for _ in range(way.runs_before):
        engine.batch(case.plan, case.requests, **case.options)
    found = engine.batch(case.plan, case.requests, **case.options)
    check_nothing_is_left(engine)
    return found


# ── one run, watched ─────────────────────────────────────────────────────────────────────────────────────


def check_watched(data: st.DataObject, case: Case) -> None:
    """The first request alone. Where weights are behind it, all that a token does not see is noise in a twin."""
    watching = Disturbed(case.kind, seed=case.seed) if isinstance(case.kind, Weights) else case.kind.model(PLENTY)
    kept, chunk = data.draw(st.sampled_from((0, 0, 400))), data.draw(st.sampled_from((None, None, None, 3, 16)))
    drafts = data.draw(st.one_of(st.none(), st.none(), st.none(), st.integers(0, 99)))
    way = Way(kept=kept, chunk=chunk, cells=watching.cells, drafts=drafts)
    engine = engine_for(watching, way, words=case.words, kind=Watched)  # type: ignore[arg-type]
    for _ in range(1 if drafts is None else 2):  # the second run is guessed from the first
        [found] = engine.batch(case.plan, case.requests[:1], **case.options)
    check_nothing_is_left(engine)
    if is_excused(found, way):
        return
    check_same(found, case.expected())
    if isinstance(watching, Disturbed):
        assert watching.worst <= 1e-9, f"something unseen changed logits by {watching.worst}"
    is_refused = isinstance(found, Invalid)
    if isinstance(found, Invalid):
        found = found.result
    if not isinstance(found, Result) or not found.usage.output_tokens:
        return
    count(Invariant.ORACLE, case.key)
    if isinstance(watching, Disturbed):
        count(Invariant.ISOLATION, case.key, watching.compared)
    if drafts is not None:
        count(Invariant.DRAFTS, case.key, found.usage.confirmed_tokens)
        return
    check_trace(engine.last, found, len(watching.fed))
    check_positions(case, watching.fed)
    check_cost(case.plan.mode, case.expected(), engine.last, found, way)
    check_counts(data, case, engine.last, found, way)
    if case.plan.output is not None and not (case.has_checks and (is_refused or found.problems)):
        check_valid(case, found)


def check_positions(case: Case, fed: Sequence[FedToken]) -> None:
    """Every token stands behind all that it sees, unless the policy lets a branch go on at its own counter, or a value
    in lock-step was decoded once more; in a dense plan right behind it."""
    if case.plan.mode is Mode.LOCKSTEP and case.may_repeat:
        return
    if any(branch.overrun is Overrun.PAPER for branch in case.plan.branches):
        return
    for token in fed:
        assert all(seen.position < token.position for seen in token.sees), "a token stands before what it sees"
        if case.plan.placement is Placement.DENSE:
            last = max((seen.position for seen in token.sees), default=-1)
            assert token.position == last + 1, f"a token stands {token.position - last} behind what it sees"
    count(Invariant.POSITIONS, case.key)


def check_trace(request: RequestState, found: Result, fed: int) -> None:
    """The text that a trace shows as fed is what the usage counts; drawn tokens are all else that a model is fed."""
    shown = sum(one.tokens for one in found.trace.fed)
    assert shown == found.usage.input_tokens + found.usage.forced_tokens, "fed tokens do not add up to the usage"
    assert sum(one.tokens for one in found.trace.fed if one.was_kept) == found.usage.reused_tokens
    indexes = ((one.index, branch.memory.fed) for branch in request.branches for one in branch.record.drawn)
    drawn = sum(index is not None and index < in_memory for index, in_memory in indexes)
    assert request.schedule.preemptions or fed == shown + drawn, "the model was fed something else than the trace shows"


def check_counts(data: st.DataObject, case: Case, request: RequestState, found: Result, way: Way) -> None:
    """Passes and cells are those of the plan, and what has happened is the same under every schedule."""
    run_log, usage = request.run_log(chunk=way.chunk), found.usage
    simulated = simulate(case.plan, run_log)
    if request.counts.was_held_back:
        wanted = way.kept + sum(max(one.memory.reserved, one.memory.fed) for one in request.all_branches)
        assert way.cells is not None and wanted > way.cells, "something waited where there was room for all"
        return
    assert usage.forward_passes - usage.repair_passes == usage.critical_path == simulated.passes
    count(Invariant.DEPTH, case.key, way)
    if not case.may_repeat:
        assert usage.peak_cells <= simulated.peak_cells
        count(Invariant.ACCOUNTING, case.key, way)
    schedule = data.draw(schedules(case.plan))
    check_schedule_changes_nothing(case.plan, run_log, schedule)
    count(Invariant.LIVENESS, case.key, schedule)


def check_cost(mode: Mode, expected: Expected, request: RequestState, found: Result, way: Way) -> None:
    """What the slow decoder says must be fed, and how many passes its draws must take one behind the other. In
    lock-step a value that is decoded again may have to wait for the last token of one that is not."""
    assert isinstance(expected, oracle.Decoded)
    usage = found.usage
    fed = sum(branch.memory.fed for branch in request.all_branches) + request.counts.kept_tokens
    if way.chunk is not None:
        assert fed >= expected.cost.fed, "something that is seen was not fed"
        return
    assert fed == expected.cost.fed, f"{fed} tokens were fed, slowly {expected.cost.fed}"
    if not request.counts.was_held_back:
        passes = expected.first.passes, expected.cost.passes - expected.first.passes
        taken = usage.forward_passes - usage.repair_passes, usage.repair_passes
        are_slower = mode is Mode.LOCKSTEP and taken[1] >= passes[1]
        assert taken == passes or (taken[0] == passes[0] and are_slower), f"{taken} passes; slowly {passes}"


def check_valid(case: Case, found: Result) -> None:
    """By a validator that shares nothing with the guides."""
    assert case.plan.output is not None
    validator = jsonschema.Draft202012Validator(schema_of(case.plan.output, dict(case.plan.types)))
    for answer in found.answers:
        validator.validate(json.loads(answer.text))
    count(Invariant.VALIDITY, case.key)


def check_repairs(data: st.DataObject) -> None:
    """Answers of which much is decoded again, watched and in another way."""
    case = data.draw(repaired_cases())
    with wide_softmax():
        check_watched(data, case)
        way = data.draw(ways())
        check_all(case, run(case, case.kind.model(way.cells or PLENTY), way), way)


def check_auto(data: st.DataObject) -> None:
    """Texts in which the model begins branches, watched and in another way."""
    case = data.draw(auto_cases())
    with wide_softmax():
        check_watched(data, case)
        way = data.draw(ways())
        check_all(case, run(case, case.kind.model(way.cells or PLENTY), way), way)


def check_cells(data: st.DataObject) -> None:
    """A run for its memory only, not decoded slowly: with chunks and kept prompts, and once more on the same engine."""
    case = data.draw(cases(kinds=[kind for kind in KINDS if not isinstance(kind, Weights)], most=1))
    case = replace(case, wish=None)
    if case.may_repeat:
        return
    chunk = data.draw(st.sampled_from((None, None, 1, 4, 9, 20)))
    way = Way(kept=data.draw(st.sampled_from((0, 40, 400))), chunk=chunk)
    engine = engine_for(case.kind.model(PLENTY), way, words=case.words, kind=Watched)
    for again in range(data.draw(st.integers(1, 2))):
        [found] = engine.batch(case.plan, case.requests, **case.options)
        if isinstance(found, Result) and found.usage.output_tokens and not engine.last.counts.was_held_back:
            simulated = simulate(case.plan, engine.last.run_log(chunk=chunk))
            assert found.usage.peak_cells <= simulated.peak_cells
            count(Invariant.ACCOUNTING, case.key, way, again)
    check_nothing_is_left(engine)


# ── stacks, cancellations, failures ──────────────────────────────────────────────────────────────────────


def check_stack(data: st.DataObject) -> None:
    """Each document of a stack gets the answer that it would have had alone, token for token."""
    check_each_document(data, data.draw(cases(stacked=True, most=1)))


def check_repaired_stack(data: st.DataObject) -> None:
    """The same where much of each document is decoded again, in different rounds."""
    check_each_document(data, data.draw(repaired_cases(stacked=True)))


def check_each_document(data: st.DataObject, case: Case) -> None:
    [inputs] = case.requests
    [name] = [one.name for one in case.plan.inputs if one.each]
    with wide_softmax():
        found_alone = [case.slowly({**inputs, name: [document]}) for document in inputs[name]]
        alone = [one for one in found_alone if isinstance(one, oracle.Decoded)]
        assume(len(alone) == len(found_alone))
        way = data.draw(ways())
        [found] = run(case, case.kind.model(way.cells or PLENTY), way)
    if is_excused(found, way):
        return
    assert isinstance(found, Invalid) == any(one.is_refused for one in alone)
    result = found.result if isinstance(found, Invalid) else found
    check_answers(result, [answer for one in alone for answer in one.answers])
    assert isinstance(result, Result)
    problems = [replace(one, document=number) for number, each in enumerate(alone) for one in each.problems]
    assert list(result.problems) == problems, "other problems"
    count(Invariant.CONFLUENCE, case.key, way, "stack")


def check_cancelling(data: st.DataObject) -> None:
    """Runs of another program are given up and stopped after some steps: this one keeps its tokens, what was stopped
    has the beginning of its answer, and no cell is lost."""
    case = data.draw(cases(most=1))
    other = data.draw(plans())
    assume(not (is_refused(case.plan, case.words) or is_refused(other, case.words)))
    others, way = data.draw(inputs_for(other)), data.draw(ways())
    steps, more = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12))
    with wide_softmax():
        engine = engine_for(case.kind.model(way.cells or PLENTY), way, words=case.words)
        options: Any = {"seed": case.seed, "sampling": case.sampling}
        given_up = engine.stream(other, others, **options)
        engine.loop.submit(stopped := engine.prepare(other, others, options, with_events=False))
        for _ in range(steps):
            next(given_up, None)
        kept = engine.stream(case.plan, case.requests[0], **case.options)
        events = [event for _ in range(more) if (event := next(kept, None)) is not None]
        text, drawn = text_so_far(stopped), stopped.stats.drawn
        engine.loop.stop([stopped])
        given_up.close()  # type: ignore[attr-defined]
        engine.check_integrity()
        events += kept
        check_last(events, case.expected(), way)
        [whole] = engine.batch(other, [others], **options)
    found = engine.outcome_of(stopped)
    if stopped.schedule.is_stopped and isinstance(whole, Result) and not is_excused(whole, way):
        assert isinstance(found, Result) and whole.text.startswith(found.text)
        assert found.is_stacked or found.text == text, "it has all that a reader can have read"
        assert all(found.text[slice(*one.span)] in ("", one.text) for one in found.fields)
        assert set(found.truncations) <= set(whole.truncations) and found.usage.output_tokens == drawn
    check_nothing_is_left(engine)
    count(Invariant.ACCOUNTING, case.key, repr(other), steps, more, way)


def check_last(events: Sequence[Any], expected: Expected, way: Way) -> None:
    last = events[-1]
    assert isinstance(last, Done | Failed)
    found = last.result if isinstance(last, Done) else last.error
    if not is_excused(found, way):
        check_same(found, expected)


def check_failing(data: st.DataObject) -> None:
    """The device is gone at a random step: no cell is lost, and the next run on the same engine is as any other."""
    case = data.draw(cases())
    way, step = data.draw(ways()), data.draw(st.integers(1, 20))
    with wide_softmax():
        model = Failing(case.kind.model(way.cells or PLENTY), step)
        engine = engine_for(model, way, words=case.words)  # type: ignore[arg-type]
        try:
            engine.batch(case.plan, case.requests, **case.options)
        except ConnectionError:
            check_nothing_is_left(engine)
            count(Invariant.ACCOUNTING, case.key, way, step)
        model.left = 0
        check_all(case, engine.batch(case.plan, case.requests, **case.options), way)
    check_nothing_is_left(engine)
