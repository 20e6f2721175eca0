"""The dependency graph of a plan and its critical path: the fewest and the most passes that a run can take.

A piece is a segment that writes something. A branch's end is a piece of its own that writes nothing, and so is
the end of a repeat: a join waits for the one, what follows a list waits for the other. Loops are drawn once, as
the pattern of one item.

For the critical path the pieces weigh what they draw. A repeat's opening also carries the rounds before the last
one, each as long as the longest way from its opening to its end. For the fewest passes an arm that need not be
chosen weighs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from pastalang.plan.graph import CriticalPath, Graph, in_order
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
from pastalang.plan.structure import nesting_of, walk_plan
from pastalang.plan.token_bounds import Lengths, Range, decision_draws, draws_of


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """`address` is that of the segment; `WHOLE` for the end of the branch, one level deeper for the end of a repeat."""

    branch: BranchId
    address: Address

    @property
    def is_end(self) -> bool:
        return self.address == WHOLE


# What stands directly before a place: several pieces behind a choice or a join.
_Before: TypeAlias = tuple[Piece, ...]


def dependencies_of(plan: Plan) -> Graph[Piece]:
    builder = _Builder()
    for branch in plan.branches:
        builder.branch(branch)
    return builder.graph()


def end_of_repeat(address: Address) -> Address:
    return (*address, 1)


class _Builder:
    """Branches come in the order of their ids, so a parent has passed the fork before the child is looked at."""

    def __init__(self) -> None:
        self._nodes: list[Piece] = []
        self._edges: list[tuple[Piece, Piece]] = []
        self._starts: dict[BranchId, _Before] = {}

    def graph(self) -> Graph[Piece]:
        return Graph(tuple(self._nodes), tuple(self._edges))

    def branch(self, branch: Branch) -> None:
        before = self._all(branch.id, branch.segments, (), self._starts.get(branch.id, ()))
        self._add(Piece(branch.id, WHOLE), before)

    def _all(self, id: BranchId, segments: tuple[Segment, ...], prefix: Address, before: _Before) -> _Before:
        for index, segment in enumerate(segments):
            before = self._one(Piece(id, (*prefix, index)), segment, before)
        return before

    def _one(self, piece: Piece, segment: Segment, before: _Before) -> _Before:
        """What stands before the next segment."""
        match segment:
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
        self._nodes.append(piece)
        self._edges.extend((source, piece) for source in before)
        return (piece,)


def passes_of(plan: Plan, lengths: Lengths) -> Range:
    return Range(_fewest(plan, lengths), critical_path(plan, lengths).length)


def critical_path(plan: Plan, lengths: Lengths) -> CriticalPath[Piece]:
    """The pieces that decide how long the longest run takes."""
    graph = dependencies_of(plan)
    return graph.critical_path(_most(plan, graph, lengths))


def _most(plan: Plan, graph: Graph[Piece], lengths: Lengths) -> dict[Piece, int]:
    weights: dict[Piece, int] = {}
    repeats: list[tuple[Piece, Repeat]] = []
    for branch, address, segment in walk_plan(plan):
        piece = Piece(branch.id, address)
        match segment:
            case Hole():
                weights[piece] = draws_of(segment).high
            case Choose(arms=arms):
                weights[piece] = decision_draws(len(arms)).high
            case Repeat():
                repeats.append((piece, segment))
            case _:
                pass
    behind = _behind(graph)
    loops = nesting_of(plan).loops
    places = {piece for piece, _ in repeats}
    around = {piece: len(loops[piece.branch]) + _repeats_around(piece, places) for piece in places}
    for piece, repeat in sorted(repeats, key=lambda pair: -around[pair[0]]):  # the inner ones first
        _weigh_repeat(piece, repeat, weights, behind, lengths)
    return weights


def _repeats_around(piece: Piece, repeats: set[Piece]) -> int:
    """How many repeats of its own branch a piece stands in."""
    return sum(Piece(piece.branch, piece.address[:depth]) in repeats for depth in range(1, len(piece.address)))


def _weigh_repeat(
    piece: Piece, repeat: Repeat, weights: dict[Piece, int], behind: dict[Piece, list[Piece]], lengths: Lengths
) -> None:
    """Every round decides whether there is another one, where it may; the end decides where it could go on."""
    end = Piece(piece.branch, end_of_repeat(piece.address))
    items = lengths.items_of_repeat(repeat).high
    choices = max(repeat.maximum - repeat.minimum, 0) if repeat.over is None else 0
    if not items:
        return
    weights[piece] = 0
    round_ = _longest_way(piece, end, weights, behind)
    weights[piece] = (items - 1) * round_ + min(choices, items)
    weights[end] = 0


def _longest_way(start: Piece, end: Piece, weights: dict[Piece, int], behind: dict[Piece, list[Piece]]) -> int:
    """The heaviest way from one piece to another, the first one left out."""
    reached = _reachable(start, behind)
    edges = [(source, target) for source in reached for target in behind[source]]
    best = dict.fromkeys(reached, 0)
    for piece in in_order(reached, edges):
        for target in behind[piece]:
            best[target] = max(best[target], best[piece] + weights.get(target, 0))
    return best[end]


def _reachable(start: Piece, behind: dict[Piece, list[Piece]]) -> tuple[Piece, ...]:
    found = {start: None}
    waiting = [start]
    while waiting:
        for target in behind[waiting.pop()]:
            if target not in found:
                found[target] = None
                waiting.append(target)
    return tuple(found)


def _behind(graph: Graph[Piece]) -> dict[Piece, list[Piece]]:
    behind: dict[Piece, list[Piece]] = {piece: [] for piece in graph.nodes}
    for source, target in graph.edges:
        behind[source].append(target)
    return behind


def _fewest(plan: Plan, lengths: Lengths) -> int:
    """A lower bound: what happens in every run, and lists as if they had one item."""
    weights: dict[Piece, int] = {}
    left_out: set[BranchId] = set()  # branches that a run need not have; their parents come before them
    for branch in plan.branches:
        optional = branch.id in left_out
        _weigh_least(branch, branch.segments, (), optional, weights, left_out, lengths)
    return dependencies_of(plan).critical_path(weights).length


def _weigh_least(
    branch: Branch,
    segments: tuple[Segment, ...],
    prefix: Address,
    is_optional: bool,
    weights: dict[Piece, int],
    left_out: set[BranchId],
    lengths: Lengths,
) -> None:
    for index, segment in enumerate(segments):
        address = (*prefix, index)
        match segment:
            case Hole():
                weights[Piece(branch.id, address)] = 0 if is_optional else draws_of(segment, branch.overrun).low
            case Choose(arms=arms):
                weights[Piece(branch.id, address)] = 0 if is_optional else 1
                for number, arm in enumerate(arms):
                    _weigh_least(branch, arm.segments, (*address, number), True, weights, left_out, lengths)
            case Repeat(body=body):
                may_be_empty = is_optional or lengths.items_of_repeat(segment).low == 0
                _weigh_least(branch, body, (*address, 0), may_be_empty, weights, left_out, lengths)
            case Fork(branch=child) if is_optional:
                left_out.add(child)
            case Each(branch=child) if is_optional or lengths.items_of_each(segment).low == 0:
                left_out.add(child)
            case _:
                pass
