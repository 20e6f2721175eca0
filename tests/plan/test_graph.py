"""Questions to a dependency graph, and what is not imported to ask them."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest

from pastalang.plan.dependencies import Piece, dependencies_of
from pastalang.plan.graph import Graph, find_cycle, in_order
from pastalang.plan.plan import WHOLE
from tests.plan.programs import field, json_body, named, plan_of

DIAMOND: Graph[str] = Graph(
    ("plan", "food", "sights", "summary"),
    (("plan", "food"), ("plan", "sights"), ("food", "summary"), ("sights", "summary")),
)


def test_waves_are_what_could_be_known_at_the_same_time() -> None:
    assert DIAMOND.waves == (("plan",), ("food", "sights"), ("summary",))
    assert DIAMOND.width == 2


def test_the_critical_path_is_the_heaviest_way_through() -> None:
    found = DIAMOND.critical_path({"plan": 5, "food": 7, "sights": 9, "summary": 4})
    assert (found.length, found.nodes) == (18, ("plan", "sights", "summary"))


def test_an_empty_graph_has_no_way_through() -> None:
    empty: Graph[str] = Graph((), ())
    assert empty.critical_path({}).length == 0
    assert empty.width == 0


def test_everything_known_before_is_found_through_others() -> None:
    assert DIAMOND.known_before("summary") == {"plan", "food", "sights"}


def test_a_circle_is_shown_from_one_node_back_to_it() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("x", "a")]
    circle = find_cycle(("a", "b", "c", "x"), edges)
    assert circle is not None
    assert circle[0] == circle[-1] and set(circle) == {"a", "b", "c"}
    assert all(step in edges for step in pairwise(circle))


def test_there_is_no_circle_where_there_is_an_order() -> None:
    assert DIAMOND.find_cycle() is None
    assert in_order(DIAMOND.nodes, DIAMOND.edges) == DIAMOND.nodes


def test_a_value_needs_its_key_and_what_it_waits_for_and_nothing_else() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c", after=("a",))))
    a, b, c = (named(plan, name).id for name in "abc")
    before = dependencies_of(plan).known_before(Piece(c, (2,)))
    assert Piece(a, (0,)) in before and Piece(a, WHOLE) in before
    assert Piece(b, (0,)) not in before


@pytest.mark.parametrize("module", ["pastalang.plan.build", "pastalang.plan.serialise", "pastalang.plan.forecast"])
def test_planning_imports_nothing_heavy(module: str) -> None:
    asked = (
        f"import sys, {module}; print([name for name in ('networkx', 'torch', 'hypothesis') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
