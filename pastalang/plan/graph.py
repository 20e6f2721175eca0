"""The dependencies of a plan as a networkx graph, under the names that the program gives its fields and branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from pastalang.plan.dependencies import Piece, critical_path, dependency_graph
from pastalang.plan.plan import ROOT, WHOLE, Choose, Each, Form, Hole, Plan, Repeat
from pastalang.plan.structure import walk_plan
from pastalang.plan.token_bounds import Lengths
from pastalang.values.describe import caption
from pastalang.values.paths import MAIN

if TYPE_CHECKING:
    import networkx


Attributes: TypeAlias = dict[str, str | int]


def graph_of(plan: Plan) -> networkx.DiGraph:
    """The graph that `Plan.graph` describes: that of the pieces, under the names of those that have one."""
    import networkx

    graph, named = dependency_graph(plan), {piece: (name, found) for piece, name, found in _nodes(plan)}
    longest = set(critical_path(plan, Lengths()).pieces)
    waves = _waves(graph, {piece for piece, (_, found) in named.items() if "max_tokens" in found})
    for piece, (_, found) in named.items():
        graph.add_node(piece, **found, wave=waves[piece], critical=piece in longest)
    _leave_out(graph, [piece for piece in graph if piece not in named])
    idle = [piece for piece in networkx.isolates(graph) if graph.nodes[piece]["kind"] == "branch"]
    graph.remove_nodes_from(idle)  # nothing is decided in them, and nothing waits for them
    return networkx.relabel_nodes(graph, {piece: name for piece, (name, _) in named.items()}, copy=True)


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


def _waves(graph: networkx.DiGraph, values: set[Piece]) -> dict[Piece, int]:
    """How many values have to be written one after another until a piece is known, its own included."""
    import networkx

    waves: dict[Piece, int] = {}
    for piece in networkx.topological_sort(graph):
        waves[piece] = max((waves[need] for need in graph.pred[piece]), default=0) + (piece in values)
    return waves


def _leave_out(graph: networkx.DiGraph, pieces: Iterable[Piece]) -> None:
    """Pieces without a name, such as forced text: what needs them needs what they need."""
    for piece in pieces:
        graph.add_edges_from(product(list(graph.pred[piece]), list(graph.succ[piece])))
        graph.remove_node(piece)
