"""The dependency graph of a plan: its pieces of output, and which of them must be known before which.

A piece is a segment that writes something. A branch's end is a piece of its own that writes nothing, and so is
the end of a repeat: a join waits for the one, what follows a list waits for the other. Loops are drawn once, as
the pattern of one item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from pastalang.plan.graph import Graph
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
