"""The dependencies of a plan as a networkx graph, under the names that the program gives its fields and branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from pastalang.graphs import in_order
from pastalang.plan.dependencies import Dependencies, Piece, critical_path, dependencies_of
from pastalang.plan.plan import ROOT, WHOLE, Choose, Each, Form, Hole, Plan, Repeat
from pastalang.plan.structure import walk_plan
from pastalang.plan.token_bounds import Lengths
from pastalang.values.describe import caption
from pastalang.values.paths import MAIN

if TYPE_CHECKING:
    import networkx


Attributes: TypeAlias = dict[str, str | int]


def graph_of(plan: Plan) -> networkx.DiGraph:
    """The graph that `Plan.graph` describes."""
    import networkx  # takes a moment, and most plans are never asked for their graph

    dependencies = dependencies_of(plan)
    nodes = {piece: (name, attributes) for piece, name, attributes in _nodes(plan)}
    values = {piece for piece, (_, attributes) in nodes.items() if "max_tokens" in attributes}
    waves, needs = _waves(dependencies, values), _named_needs(dependencies, set(nodes))
    longest = set(critical_path(plan, Lengths()).pieces)
    graph = networkx.DiGraph(name=plan.template)
    for piece, (name, attributes) in nodes.items():
        graph.add_node(name, **attributes, wave=waves[piece], critical=piece in longest)
    for piece, (name, _) in nodes.items():
        graph.add_edges_from((nodes[need][0], name) for need in needs[piece])
    idle = [name for name in networkx.isolates(graph) if graph.nodes[name]["kind"] == "branch"]
    graph.remove_nodes_from(idle)  # nothing is decided in them, and nothing waits for them
    return graph


def _nodes(plan: Plan) -> Iterator[tuple[Piece, str, Attributes]]:
    """Every field, and the end of every branch that does not have the name of a field."""
    fields = set()
    for branch, address, segment in walk_plan(plan):
        match segment:
            case Hole(field=name) | Choose(field=name) | Repeat(field=name):
                fields.add(name)
                yield Piece(branch.id, address), name, {**_describe(segment), "branch": branch.name or MAIN}
            case _:
                pass
    fan_outs = {segment.branch: segment for _, _, segment in walk_plan(plan) if isinstance(segment, Each)}
    for branch in plan.branches:
        if branch.id != ROOT and branch.name not in fields:
            items = {"type": f"one per item of {fan_outs[branch.id].over}"} if branch.id in fan_outs else {}
            yield Piece(branch.id, WHOLE), branch.name, {"kind": "branch", **items, "branch": branch.name}


def _describe(segment: Hole | Choose | Repeat) -> Attributes:
    match segment:
        case Hole(type=type, form=form, max_tokens=max_tokens):
            kind = "thought" if form is Form.THOUGHT else "value"
            return {"kind": kind, "type": caption(type), "max_tokens": max_tokens}
        case Choose(arms=arms):
            return {"kind": "choice", "type": " or ".join(arm.label for arm in arms)}
        case Repeat(over=str() as over):
            return {"kind": "list", "type": f"one item per item of {over}"}
        case Repeat(minimum=minimum, maximum=maximum):
            return {"kind": "list", "type": f"{minimum}..{maximum} items"}


def _waves(dependencies: Dependencies, values: set[Piece]) -> dict[Piece, int]:
    """How many values have to be written one after another until a piece is known, its own included."""
    waves: dict[Piece, int] = {}
    for piece in in_order(dependencies.pieces, dependencies.edges):
        before = max((waves[need] for need in dependencies.needs[piece]), default=0)
        waves[piece] = before + (piece in values)
    return waves


def _named_needs(dependencies: Dependencies, named: set[Piece]) -> dict[Piece, tuple[Piece, ...]]:
    """The nearest named pieces that every piece needs. Pieces without a name, such as forced text, pass on theirs."""
    needs: dict[Piece, tuple[Piece, ...]] = {}
    for piece in in_order(dependencies.pieces, dependencies.edges):
        found = ((need,) if need in named else needs[need] for need in dependencies.needs[piece])
        needs[piece] = tuple(dict.fromkeys(need for group in found for need in group))
    return needs
