"""The dependency graph of a plan and its critical path: the fewest and the most passes that a run can take.

A piece is a segment that writes something. A branch's end is a piece of its own that writes nothing, and so is
the end of a repeat: a join waits for the one, what follows a list waits for the other. Loops are drawn once, as
the pattern of one item. The graph has the pieces that have a name.

For the critical path its nodes weigh what they draw. Threads that the model opens itself weigh nothing: how many there
are, and what waits for them, is known after the run. A repeat's opening also carries the rounds before the last
one, each as long as the longest way from its opening to its end. For the fewest passes an arm that need not be
chosen weighs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeAlias, assert_never

from pastalang.plan.branches import (
    ROOT,
    WHOLE,
    Address,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Form,
    Hole,
    Join,
    KnownText,
    Place,
    PlanData,
    Repeat,
    Segment,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.structure import fields_of, nesting_of, visit, walk_plan
from pastalang.plan.token_bounds import Lengths, Range, decision_draws, draws_of
from pastalang.values.describe import caption
from pastalang.values.paths import MAIN

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """`address` is that of the segment; `WHOLE` for the end of the branch, one level deeper for the end of a repeat."""

    branch: BranchId
    address: Address

    @property
    def is_end(self) -> bool:
        return self.address == WHOLE


Attributes: TypeAlias = dict[str, str | int]

# The pieces directly before a place: several after a choice or a join.
_Before: TypeAlias = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class CriticalPath:
    length: int
    names: tuple[str, ...]


def dependency_graph(plan: PlanData) -> networkx.DiGraph:
    """The graph that `Plan.graph` describes: the same object with every call."""
    return plan.once(_graph_of)


def pieces_of(plan: PlanData) -> tuple[list[Piece], list[tuple[Piece, Piece]]]:
    """The nodes and the edges of the graph."""
    builder = _Builder()
    for branch in plan.branches:
        builder.branch(branch)
    return builder.pieces, builder.edges


def end_of(repeat: Repeat) -> str:
    """The name of the node that is the end of a list."""
    return f"end of {repeat.field}"


def _end_of_repeat(address: Address) -> Address:
    return (*address, 1)


class _Builder:
    """Branches come in the order of their ids, so a parent has passed the fork before its child is visited."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.edges: list[tuple[Piece, Piece]] = []
        self._starts: dict[BranchId, _Before] = {}

    def branch(self, branch: Branch) -> None:
        before = self._all(branch.id, branch.segments, (), self._starts.get(branch.id, ()))
        self._add(Piece(branch.id, WHOLE), before)

    def _all(self, id: BranchId, segments: tuple[Segment, ...], prefix: Address, before: _Before) -> _Before:
        for index, segment in enumerate(segments):
            before = self._one(Piece(id, (*prefix, index)), segment, before)
        return before

    def _one(self, piece: Piece, segment: Segment, before: _Before) -> _Before:
        """The pieces directly before the next segment."""
        if isinstance(segment, KnownText):
            return self._add(piece, before)
        match segment:
            case Hole(threads=int() as threads):
                self._starts[threads] = self._add(piece, before)
                return (piece,)
            case TurnStart() | TurnEnd() | Hole():
                return self._add(piece, before)
            case Fork(branch=branch) | Each(branch=branch):
                self._starts[branch] = before
                return before
            case Place():
                return before
            case Join(branches=branches):
                return (*before, *(Piece(branch, WHOLE) for branch in branches))
            case Choose(arms=arms):
                chosen = self._add(piece, before)
                ends = [
                    self._all(piece.branch, arm.segments, (*piece.address, number), chosen)
                    for number, arm in enumerate(arms)
                ]
                return tuple(dict.fromkeys(end for found in ends for end in found))
            case Repeat(body=body):
                opened = self._add(piece, before)
                item = self._all(piece.branch, body, (*piece.address, 0), opened)
                return self._add(Piece(piece.branch, _end_of_repeat(piece.address)), item)
            case _:
                assert_never(segment)

    def _add(self, piece: Piece, before: _Before) -> _Before:
        self.pieces.append(piece)
        self.edges.extend((source, piece) for source in before)
        return (piece,)


def _graph_of(plan: PlanData) -> networkx.DiGraph:
    """The pieces that have a name, and what lies between them left out."""
    import networkx  # takes a moment, and most plans are never asked

    pieces, edges = pieces_of(plan)
    named = {piece: (name, found) for piece, name, found in _named(plan)}
    fine: networkx.DiGraph = networkx.DiGraph(edges)
    fine.add_nodes_from((piece, named[piece][1] if piece in named else {}) for piece in pieces)
    _leave_out(fine, [piece for piece in pieces if piece not in named])
    idle = [piece for piece in networkx.isolates(fine) if fine.nodes[piece]["kind"] == "branch"]
    fine.remove_nodes_from(idle)  # nothing is decided in them, and nothing waits for them
    graph: networkx.DiGraph = networkx.DiGraph(name=plan.template)
    graph.add_nodes_from((named[piece][0], fine.nodes[piece]) for piece in pieces if piece in fine)
    graph.add_edges_from((named[source][0], named[target][0]) for source, target in fine.edges)
    assert networkx.is_directed_acyclic_graph(graph), "fields wait for one another"
    networkx.set_node_attributes(graph, _waves(graph), "wave")
    longest = heaviest_path(graph, _most(plan, graph, Lengths())).names
    networkx.set_node_attributes(graph, {name: name in longest for name in graph}, "critical")
    return networkx.freeze(graph)


def _named(plan: PlanData) -> Iterator[tuple[Piece, str, Attributes]]:
    """Every field, the end of every list, and the end of every branch that does not have the name of a field."""
    fields = set()
    for branch, address, segment in fields_of(plan):
        where = {"branch": branch.name or MAIN}
        fields.add(segment.field)
        yield Piece(branch.id, address), segment.field, {**_describe(segment), **where}
        if isinstance(segment, Repeat):
            yield Piece(branch.id, _end_of_repeat(address)), end_of(segment), {"kind": "end", **where}
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


def _leave_out(graph: networkx.DiGraph, pieces: Iterable[Piece]) -> None:
    """Pieces without a name, such as forced text: what needs them needs what they need."""
    for piece in pieces:
        graph.add_edges_from(product(list(graph.pred[piece]), list(graph.succ[piece])))
        graph.remove_node(piece)


def _waves(graph: networkx.DiGraph) -> dict[str, int]:
    """How many values have to be written one after another until each of them is known, its own included."""
    import networkx

    waves: dict[str, int] = {}
    for name in networkx.topological_sort(graph):
        own = "max_tokens" in graph.nodes[name]
        waves[name] = max((waves[need] for need in graph.pred[name]), default=0) + own
    return waves


def passes_of(plan: PlanData, lengths: Lengths) -> Range:
    return Range(_fewest(plan, lengths), critical_path(plan, lengths).length)


def critical_path(plan: PlanData, lengths: Lengths) -> CriticalPath:
    """What decides how long the longest run takes."""
    graph = dependency_graph(plan)
    return heaviest_path(graph, _most(plan, graph, lengths))


def heaviest_path(graph: networkx.DiGraph, weights: Mapping[str, int]) -> CriticalPath:
    """What `weights` does not name weighs nothing."""
    import networkx

    best: dict[str, int] = {}
    heaviest: dict[str, str | None] = {}
    for name in networkx.topological_sort(graph):
        nearest = max(graph.pred[name], key=best.__getitem__, default=None)
        best[name] = weights.get(name, 0) + (0 if nearest is None else best[nearest])
        heaviest[name] = nearest
    if not best:
        return CriticalPath(0, ())
    path = [last := max(best, key=best.__getitem__)]
    while (before := heaviest[path[-1]]) is not None:
        path.append(before)
    return CriticalPath(best[last], tuple(reversed(path)))


def _most(plan: PlanData, graph: networkx.DiGraph, lengths: Lengths) -> dict[str, int]:
    weights: dict[str, int] = {}
    repeats: list[tuple[int, Repeat]] = []
    loops = nesting_of(plan).loops
    for branch in plan.branches:
        for found in visit(branch.segments):
            match found.segment:
                case Hole(field=field) as hole if not hole.is_thread:
                    weights[field] = draws_of(hole).high
                case Choose(field=field, arms=arms):
                    weights[field] = decision_draws(len(arms)).high
                case Repeat() as repeat:
                    repeats.append((len(loops[branch.id]) + len(found.repeats), repeat))
                case _:
                    pass
    for _, repeat in sorted(repeats, key=lambda found: -found[0]):  # the inner ones first
        _weigh_repeat(repeat, weights, graph, lengths)
    return weights


def _weigh_repeat(repeat: Repeat, weights: dict[str, int], graph: networkx.DiGraph, lengths: Lengths) -> None:
    """Every round decides whether there is another one, where it may; the end decides where it could go on."""
    items = lengths.items_of(repeat).high
    choices = max(repeat.maximum - repeat.minimum, 0) if repeat.over is None else 0
    if not items:
        return
    weights[repeat.field] = 0
    round_ = _between(repeat.field, end_of(repeat), weights, graph)
    weights[repeat.field] = (items - 1) * round_ + min(choices, items)


def _between(start: str, end: str, weights: dict[str, int], graph: networkx.DiGraph) -> int:
    """The heaviest way from one node to another, the first one left out."""
    import networkx

    around = {start, *(networkx.descendants(graph, start) & {end, *networkx.ancestors(graph, end)})}
    return heaviest_path(graph.subgraph(around), weights).length - weights.get(start, 0)


def _fewest(plan: PlanData, lengths: Lengths) -> int:
    """A lower bound: what happens in every run, with lists of one item."""
    weights: dict[str, int] = {}
    left_out: set[BranchId] = set()  # branches that a run need not have; their parents come before them
    for branch in plan.branches:
        for found in visit(branch.segments):
            may_be_missing = branch.id in left_out or any(_may_be_skipped(outer, lengths) for _, outer in found.around)
            match found.segment:
                case Hole(field=field) as hole if not hole.is_thread:
                    weights[field] = 0 if may_be_missing else draws_of(hole, branch.overrun).low
                case Choose(field=field):
                    weights[field] = 0 if may_be_missing else 1
                case Fork(branch=child) if may_be_missing:
                    left_out.add(child)
                case Each(branch=child) as each if may_be_missing or lengths.items_of(each).low == 0:
                    left_out.add(child)
                case _:
                    pass
    return heaviest_path(dependency_graph(plan), weights).length


def _may_be_skipped(outer: Choose | Repeat, lengths: Lengths) -> bool:
    """Whether a run need not come to what an arm of this choice, or an item of this list, holds."""
    return isinstance(outer, Choose) or lengths.items_of(outer).low == 0
