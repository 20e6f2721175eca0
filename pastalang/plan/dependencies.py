"""The dependency graph of a plan and its critical path: the fewest and the most passes that a run can take.

A piece is a segment that writes something. A branch's end is a piece of its own that writes nothing, and so is
the end of a repeat: a join waits for the one, what follows a list waits for the other. Loops are drawn once, as
the pattern of one item.

For the critical path the pieces weigh what they draw. Threads that the model opens itself weigh nothing: how many there
are, and what waits for them, is known after the run. A repeat's opening also carries the rounds before the last
one, each as long as the longest way from its opening to its end. For the fewest passes an arm that need not be
chosen weighs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, assert_never

from pastalang.plan.plan import (
    WHOLE,
    Address,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Place,
    Plan,
    Repeat,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.structure import nesting_of, visit
from pastalang.plan.token_bounds import Lengths, Range, decision_draws, draws_of

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


# The pieces directly before a place: several after a choice or a join.
_Before: TypeAlias = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class CriticalPath:
    length: int
    pieces: tuple[Piece, ...]


def dependency_graph(plan: Plan) -> networkx.DiGraph:
    """The pieces of a plan; an edge leads from a piece to one that needs it. `Plan.graph` names the nodes."""
    import networkx  # takes a moment, and most plans are never asked

    pieces, edges = pieces_of(plan)
    graph: networkx.DiGraph = networkx.DiGraph(name=plan.template)
    graph.add_nodes_from(pieces)
    graph.add_edges_from(edges)
    return graph


def pieces_of(plan: Plan) -> tuple[list[Piece], list[tuple[Piece, Piece]]]:
    """The nodes and the edges of the graph."""
    builder = _Builder()
    for branch in plan.branches:
        builder.branch(branch)
    return builder.pieces, builder.edges


def end_of_repeat(address: Address) -> Address:
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
        match segment:
            case Hole(threads=int() as threads):
                self._starts[threads] = self._add(piece, before)
                return (piece,)
            case TurnStart() | TurnEnd() | Text() | InputText() | ItemNumber() | Hole():
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
                return self._add(Piece(piece.branch, end_of_repeat(piece.address)), item)
            case _:
                assert_never(segment)

    def _add(self, piece: Piece, before: _Before) -> _Before:
        self.pieces.append(piece)
        self.edges.extend((source, piece) for source in before)
        return (piece,)


def passes_of(plan: Plan, lengths: Lengths) -> Range:
    return Range(_fewest(plan, lengths), critical_path(plan, lengths).length)


def critical_path(plan: Plan, lengths: Lengths) -> CriticalPath:
    """The pieces that decide how long the longest run takes."""
    graph = dependency_graph(plan)
    return heaviest_path(graph, _most(plan, graph, lengths))


def heaviest_path(graph: networkx.DiGraph, weights: Mapping[Piece, int]) -> CriticalPath:
    """Pieces that `weights` does not name weigh nothing."""
    import networkx

    best: dict[Piece, int] = {}
    heaviest: dict[Piece, Piece | None] = {}
    for piece in networkx.topological_sort(graph):
        nearest = max(graph.pred[piece], key=best.__getitem__, default=None)
        best[piece] = weights.get(piece, 0) + (0 if nearest is None else best[nearest])
        heaviest[piece] = nearest
    if not best:
        return CriticalPath(0, ())
    path = [last := max(best, key=best.__getitem__)]
    while (before := heaviest[path[-1]]) is not None:
        path.append(before)
    return CriticalPath(best[last], tuple(reversed(path)))


def _most(plan: Plan, graph: networkx.DiGraph, lengths: Lengths) -> dict[Piece, int]:
    weights: dict[Piece, int] = {}
    repeats: list[tuple[int, Piece, Repeat]] = []
    loops = nesting_of(plan).loops
    for branch in plan.branches:
        for found in visit(branch.segments):
            piece = Piece(branch.id, found.address)
            match found.segment:
                case Hole() as hole if not hole.is_thread:
                    weights[piece] = draws_of(hole).high
                case Choose(arms=arms):
                    weights[piece] = decision_draws(len(arms)).high
                case Repeat() as repeat:
                    repeats.append((len(loops[branch.id]) + len(found.repeats), piece, repeat))
                case _:
                    pass
    for _, piece, repeat in sorted(repeats, key=lambda found: -found[0]):  # the inner ones first
        _weigh_repeat(piece, repeat, weights, graph, lengths)
    return weights


def _weigh_repeat(
    piece: Piece, repeat: Repeat, weights: dict[Piece, int], graph: networkx.DiGraph, lengths: Lengths
) -> None:
    """Every round decides whether there is another one, where it may; the end decides where it could go on."""
    end = Piece(piece.branch, end_of_repeat(piece.address))
    items = lengths.items_of(repeat).high
    choices = max(repeat.maximum - repeat.minimum, 0) if repeat.over is None else 0
    if not items:
        return
    weights[piece] = 0
    round_ = _between(piece, end, weights, graph)
    weights[piece] = (items - 1) * round_ + min(choices, items)
    weights[end] = 0


def _between(start: Piece, end: Piece, weights: dict[Piece, int], graph: networkx.DiGraph) -> int:
    """The heaviest way from one piece to another, the first one left out."""
    import networkx

    around = {start, *(networkx.descendants(graph, start) & {end, *networkx.ancestors(graph, end)})}
    return heaviest_path(graph.subgraph(around), weights).length - weights.get(start, 0)


def _fewest(plan: Plan, lengths: Lengths) -> int:
    """A lower bound: what happens in every run, with lists of one item."""
    weights: dict[Piece, int] = {}
    left_out: set[BranchId] = set()  # branches that a run need not have; their parents come before them
    for branch in plan.branches:
        for found in visit(branch.segments):
            may_be_missing = branch.id in left_out or any(_may_be_skipped(outer, lengths) for _, outer in found.around)
            piece = Piece(branch.id, found.address)
            match found.segment:
                case Hole() as hole if not hole.is_thread:
                    weights[piece] = 0 if may_be_missing else draws_of(hole, branch.overrun).low
                case Choose():
                    weights[piece] = 0 if may_be_missing else 1
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
