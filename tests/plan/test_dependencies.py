"""The pieces of a plan with what each of them needs."""

from __future__ import annotations

import networkx

from pastalang.plan.dependencies import Piece, dependency_graph, heaviest_path
from pastalang.plan.plan import ROOT, WHOLE
from tests.plan.programs import field, json_body, named, plan_of

PLAN, FOOD, SIGHTS, SUMMARY = (Piece(ROOT, (index,)) for index in range(4))
DIAMOND = networkx.DiGraph([(PLAN, FOOD), (PLAN, SIGHTS), (FOOD, SUMMARY), (SIGHTS, SUMMARY)])


def test_the_critical_path_is_the_heaviest_way_through() -> None:
    found = heaviest_path(DIAMOND, {PLAN: 5, FOOD: 7, SIGHTS: 9, SUMMARY: 4})
    assert (found.length, found.pieces) == (18, (PLAN, SIGHTS, SUMMARY))


def test_without_pieces_the_critical_path_is_empty() -> None:
    assert heaviest_path(networkx.DiGraph(), {}).length == 0


def test_a_value_needs_its_key_and_what_it_waits_for_and_nothing_else() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c", after=("a",))))
    a, b, c = (named(plan, name).id for name in "abc")
    before = networkx.ancestors(dependency_graph(plan), Piece(c, (2,)))
    assert Piece(a, (0,)) in before and Piece(a, WHOLE) in before
    assert Piece(b, (0,)) not in before
