"""Topological order and cycles, and the pieces of a plan with what each of them needs."""

from __future__ import annotations

import networkx
import pytest

from pastalang.plan.dependencies import Dependencies, Piece, dependencies_of
from pastalang.plan.plan import ROOT, WHOLE
from pastalang.toposort import components, find_cycle, in_order
from tests.plan.programs import field, json_body, named, plan_of

PLAN, FOOD, SIGHTS, SUMMARY = (Piece(ROOT, (index,)) for index in range(4))
DIAMOND = Dependencies(
    (PLAN, FOOD, SIGHTS, SUMMARY), ((PLAN, FOOD), (PLAN, SIGHTS), (FOOD, SUMMARY), (SIGHTS, SUMMARY))
)


def test_the_critical_path_is_the_heaviest_way_through() -> None:
    found = DIAMOND.critical_path({PLAN: 5, FOOD: 7, SIGHTS: 9, SUMMARY: 4})
    assert (found.length, found.pieces) == (18, (PLAN, SIGHTS, SUMMARY))


def test_without_pieces_the_critical_path_is_empty() -> None:
    assert Dependencies((), ()).critical_path({}).length == 0


def test_a_shortest_cycle_is_found() -> None:
    needs = {"x": ["a"], "a": ["b", "c"], "b": ["d"], "c": ["a"], "d": ["a"]}
    assert find_cycle(needs) == ("a", "c")


def test_what_needs_itself_is_a_cycle() -> None:
    assert find_cycle({"a": ["a"]}) == ("a",)


def test_without_a_cycle_there_is_an_order() -> None:
    edges = [("c", "a"), ("a", "b")]
    assert find_cycle({"a": ["c"], "b": ["a"], "c": []}) is None
    assert in_order("abc", edges) == ("c", "a", "b")


def test_with_a_cycle_there_is_no_order() -> None:
    with pytest.raises(AssertionError, match="cycle"):
        in_order("ab", [("a", "b"), ("b", "a")])


def test_what_needs_each_other_is_one_component_after_all_that_it_needs() -> None:
    found = list(components({"a": ["b"], "b": ["a", "c"], "c": [], "d": ["a"]}))
    assert [set(group) for group in found] == [{"c"}, {"a", "b"}, {"d"}]


def test_a_value_needs_its_key_and_what_it_waits_for_and_nothing_else() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c", after=("a",))))
    a, b, c = (named(plan, name).id for name in "abc")
    graph = networkx.DiGraph()
    graph.add_edges_from(dependencies_of(plan).edges)
    before = networkx.ancestors(graph, Piece(c, (2,)))
    assert Piece(a, (0,)) in before and Piece(a, WHOLE) in before
    assert Piece(b, (0,)) not in before
