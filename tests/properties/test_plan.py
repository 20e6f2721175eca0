"""What holds for the plan of every program."""

from __future__ import annotations

from dataclasses import replace

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import Mode, Plan, Program, build_plan
from pastalang.plan.branches import WHOLE, Address, BranchId, Join
from pastalang.plan.dependencies import Piece, pieces_of
from pastalang.plan.diff import differences
from pastalang.plan.draw.timeline import build_timeline
from pastalang.plan.forecast import forecast
from pastalang.plan.serialise import fingerprint, from_json, to_json
from pastalang.plan.simulate import simulate
from pastalang.plan.structure import walk
from pastalang.plan.token_bounds import Lengths
from pastalang.testing import (
    check_cells,
    check_plan,
    check_schedule_changes_nothing,
    execute,
    plans,
    programs,
    runs,
    schedules,
)
from tests.properties.cases import FEW, planned
from tests.properties.sources import compiled, sources
from tests.properties.tally import Invariant, count


@given(plans())
@settings(max_examples=30)
def test_every_plan_obeys_every_rule(plan: Plan) -> None:
    check_plan(plan)


@given(programs(), st.sampled_from(Mode))
@settings(max_examples=16)
def test_the_same_program_gives_the_same_bytes_and_these_the_same_plan(program: Program, mode: Mode) -> None:
    first, second = (build_plan(program.only_template, program, mode=mode) for _ in range(2))
    assert to_json(first) == to_json(second)
    assert from_json(to_json(first)) == first
    assert fingerprint(first) == fingerprint(second)
    assert differences(first, second) == ()


@given(sources())
@settings(max_examples=60)
def test_a_program_that_passes_the_check_can_be_planned_in_every_mode(source: str) -> None:
    if (program := compiled(source)) is not None:
        assert all(build_plan(program.only_template, program, mode=mode).branches for mode in Mode)


def check_schedules(data: st.DataObject) -> None:
    plan = data.draw(plans())
    run, schedule = data.draw(runs(plan)), data.draw(schedules(plan))
    check_schedule_changes_nothing(plan, run, schedule)
    check_cells(plan, run, schedule)
    count(Invariant.LIVENESS, plan, run, schedule)


@given(st.data())
@settings(max_examples=45)
def test_every_schedule_ends_and_shows_every_draw_the_same(data: st.DataObject) -> None:
    check_schedules(data)


@given(st.data())
@FEW(20)
def test_threads_that_the_model_opens_change_none_of_this(data: st.DataObject) -> None:
    plan = data.draw(planned(sources(depth=1, autos=True).map(compiled)))
    run, schedule = data.draw(runs(plan)), data.draw(schedules(plan))
    check_plan(plan)
    check_schedule_changes_nothing(plan, run, schedule)
    check_cells(plan, run, schedule)
    assert from_json(to_json(plan)) == plan
    assert build_timeline(plan).passes
    count(Invariant.LIVENESS, plan, run, schedule)


class _EightEach:
    """A tokenizer to which every text is eight tokens: more than any run of the strategy counts."""

    def encode(self, text: str) -> list[int]:
        return [0] * 8


@given(st.data(), plans())
@settings(max_examples=30)
def test_no_run_leaves_the_ranges_of_the_forecast(data: st.DataObject, plan: Plan) -> None:
    run = data.draw(runs(plan, max_items=3, max_draws=99))
    least = forecast(plan, Lengths(items={"points": 0, "note": 0}))
    most = forecast(plan, Lengths(_EightEach(), input_tokens=_INPUTS, items={"points": 3, "note": 3}))
    assert least.passes.low <= simulate(plan, replace(run, chunk=None)).passes <= most.passes.high
    done = execute(plan, run, data.draw(schedules(plan)), keep_views=False)
    assert done.peak_cells <= done.fed <= most.cells.high
    assert least.draws.low <= done.draws <= most.draws.high


_INPUTS = {"title": 9, "points": 9, "note": 9, **{f"item{number}": 9 for number in range(40)}}


@pytest.mark.long
@given(st.data(), plans())
@settings(max_examples=10_000)
def test_ten_thousand_plans_runs_and_schedules(data: st.DataObject, plan: Plan) -> None:
    run = data.draw(runs(plan))
    schedule = data.draw(schedules(plan))
    check_plan(plan)
    check_schedule_changes_nothing(plan, run, schedule)
    check_cells(plan, run, schedule)


@given(plans())
@settings(max_examples=20)
def test_the_graph_and_the_views_say_the_same_about_who_sees_whom(plan: Plan) -> None:
    pieces, edges = pieces_of(plan)
    graph = networkx.DiGraph(edges)
    graph.add_nodes_from(pieces)
    sight = _Sight(plan)
    for piece in pieces:
        assert {other for other in networkx.ancestors(graph, piece) if not other.is_end} == sight.seen_at(piece), piece


@given(plans())
@settings(max_examples=25, deadline=None)
def test_the_graph_has_no_cycles_and_the_waves_of_the_drawing(plan: Plan) -> None:
    graph = plan.graph()
    assert networkx.is_directed_acyclic_graph(graph)
    for bar in build_timeline(plan).bars:
        assert graph.nodes[bar.hole.field]["wave"] == bar.wave


class _Sight:
    """What a piece sees, by the views and joins of its plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._pieces: dict[BranchId, list[Piece]] = {}
        for piece in pieces_of(plan)[0]:
            self._pieces.setdefault(piece.branch, []).append(piece)

    def seen_at(self, piece: Piece) -> set[Piece]:
        seen: set[Piece] = set()
        for view in self._plan.branch(piece.branch).view:
            seen |= self._prefix(view.branch, view.until)
        return (seen | self._own(piece.branch, _place(piece))) - {piece}

    def _own(self, branch: BranchId, until: Address) -> set[Piece]:
        """Its own beginning, and everything that it joined on the way."""
        seen = self._prefix(branch, until)
        for address, segment in walk(self._plan.branch(branch).segments):
            if isinstance(segment, Join) and (until == WHOLE or _is_before(address, until)):
                for joined in segment.branches:
                    seen |= self.seen_at(Piece(joined, WHOLE))
        return seen

    def _prefix(self, branch: BranchId, until: Address) -> set[Piece]:
        pieces = (piece for piece in self._pieces[branch] if not piece.is_end)
        return {piece for piece in pieces if until == WHOLE or _is_before(piece.address, until)}


def _place(piece: Piece) -> Address:
    """Where it stands; the end of a repeat stands where the next segment does."""
    is_end_of_repeat = piece.address and len(piece.address) % 2 == 0
    return (*piece.address[:-2], piece.address[-2] + 1) if is_end_of_repeat else piece.address


def _is_before(address: Address, until: Address) -> bool:
    """In the order written; but one arm of a choice is never before another one."""
    pairs = enumerate(zip(address, until, strict=False))
    parting = next((place for place, (one, other) in pairs if one != other), None)
    return address < until and (parting is None or parting % 2 == 0)
