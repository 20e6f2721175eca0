"""The dependency graph of a plan, under the names that its program gives."""

from __future__ import annotations

import pickle
import subprocess
import sys

import networkx
import pytest

import pastalang
from pastalang import Plan
from pastalang.plan.dependencies import critical_path
from pastalang.plan.draw.timeline import build_timeline
from pastalang.plan.token_bounds import Lengths
from pastalang.program import types as t
from tests.plan.programs import (
    async_,
    each,
    field,
    fork,
    hole,
    json_body,
    or_null,
    plan_of,
    record,
    sync,
    text,
    text_body,
)  # fmt: skip

README = pastalang.compile(
    '''
template product(title: text)

user """Title: {title}"""

assistant json {
  brand: string(max=12) | null
  kind: "television" | "monitor" | "projector" | "other"
  screen_size: number(min=0, max_tokens=8) | null
  quote: verbatim(title, max=12)
  headline: string(max=24) after brand, kind
}
'''
)


def readme_plan() -> Plan:
    return pastalang.build_plan(README.only_template, README)


def edges(plan: Plan) -> set[tuple[str, str]]:
    return set(plan.graph().edges)


def test_the_headline_needs_brand_and_kind() -> None:
    graph = readme_plan().graph()
    assert isinstance(graph, networkx.DiGraph)
    assert set(graph.nodes) == {"brand", "kind", "screen_size", "quote", "headline"}
    assert set(graph.edges) == {("brand", "headline"), ("kind", "headline")}


def test_a_node_says_what_it_is_where_it_is_written_and_when_it_can_be_known() -> None:
    nodes = readme_plan().graph().nodes
    assert nodes["headline"] == {
        "kind": "value", "type": "string", "max_tokens": 24, "branch": "headline", "wave": 2, "critical": True,
    }  # fmt: skip
    assert nodes["brand"]["type"] == "string or null" and nodes["brand"]["wave"] == 1


def test_the_longest_path_by_tokens_is_the_critical_path_of_the_drawing() -> None:
    plan = readme_plan()
    graph = plan.graph().copy()
    for source, target in graph.edges:
        graph.edges[source, target]["tokens"] = graph.nodes[target]["max_tokens"]
    starts = [name for name in graph if not graph.in_degree(name)]
    graph.add_edges_from(("start", name, {"tokens": graph.nodes[name]["max_tokens"]}) for name in starts)
    longest = networkx.dag_longest_path(graph, weight="tokens")[1:]
    assert longest == ["brand", "headline"] == list(build_timeline(plan).critical)
    assert [name for name, node in plan.graph().nodes.items() if node["critical"]] == longest


def test_what_is_written_left_to_right_needs_all_that_stands_before_it() -> None:
    plan = plan_of(text_body(text("a "), hole("one"), text(" b "), hole("two"), text(" c "), hole("three")))
    assert edges(plan) == {("one", "two"), ("two", "three")}


def test_a_sync_needs_the_values_of_the_blocks_that_it_names() -> None:
    blocks = (async_("food", hole("dish"), text(", "), hole("place")), async_("sights", hole("sight")))
    graph = plan_of(text_body(text("Day: "), *blocks, sync("food", "sights"), text("So: "), hole("advice"))).graph()
    assert set(graph.predecessors("advice")) == {"food", "sights"}
    assert networkx.ancestors(graph, "advice") == {"food", "sights", "dish", "place", "sight"}
    assert graph.nodes["food"] == {"kind": "branch", "branch": "food", "wave": 2, "critical": True}


def test_an_arm_of_a_choice_needs_the_choice() -> None:
    size = or_null(record(field("width"), field("height")))
    plan = plan_of(json_body(field("size", size), field("note", after=("size",))))
    assert edges(plan) >= {("size", "size.width"), ("size", "size.height"), ("size.width", "note")}
    assert plan.graph().nodes["size"]["kind"] == "choice"


def test_a_list_is_the_pattern_of_one_item() -> None:
    rows = t.Array(record(field("name"), field("price")), min_items=1, max_items=4)
    graph = plan_of(json_body(field("rows", rows), field("total", after=("rows",)))).graph()
    assert (graph.nodes["rows"]["kind"], graph.nodes["rows"]["type"]) == ("list", "1..4 items")
    assert set(graph.edges) >= {
        ("rows", "rows[].name"), ("rows[].name", "rows[].price"), ("rows[].price", "total"), ("end of rows", "total"),
    }  # fmt: skip
    assert networkx.is_directed_acyclic_graph(graph)


def test_a_fan_out_over_a_written_list_needs_the_list() -> None:
    points = each("point", "points", text("- "), hole("detail"))
    plan = plan_of(text_body(hole("points", t.Array(t.String(4), max_items=3)), points, sync("point"), text("End")))
    graph = plan.graph()
    assert set(graph.edges) == {("points", "point[].detail"), ("point[].detail", "point[]")}
    assert graph.nodes["point[]"]["type"] == "one per item of points"


def test_the_graph_is_the_one_that_the_planner_works_on() -> None:
    plan = readme_plan()
    path = critical_path(plan, Lengths())
    assert plan.graph() is plan.graph()
    assert [name for name, node in plan.graph().nodes.items() if node["critical"]] == list(path.names)
    assert path.length == sum(plan.graph().nodes[name]["max_tokens"] for name in path.names)
    with pytest.raises(networkx.NetworkXError, match="Frozen graph"):
        plan.graph().add_edge("quote", "brand")
    assert pickle.loads(pickle.dumps(plan)) == plan and "_made" not in pickle.loads(pickle.dumps(plan)).__dict__


def test_a_graph_can_be_exported() -> None:
    tips = fork("tip", 1, 3, text("- "), hole("root"), async_("detail", hole("more")), text("\n"))
    for plan in (readme_plan(), plan_of(text_body(tips))):
        written = "\n".join(networkx.generate_graphml(plan.graph()))
        assert networkx.parse_graphml(written).edges == plan.graph().edges


@pytest.mark.parametrize("module", ["pastalang.plan.build", "pastalang.plan.serialise", "pastalang.plan.forecast"])
def test_planning_imports_nothing_heavy(module: str) -> None:
    asked = (
        f"import sys, {module}; print([name for name in ('networkx', 'torch', 'hypothesis') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
