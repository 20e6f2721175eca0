"""Drafts: tokens that are fed on the chance that a branch draws them next.

    step      … last token ── d1 ── d2 ── d3       the branch draws from the logits of its last token, as ever
                                  │     └── p1 ── p2    probes: their logits predict tokens ahead
                                  └── d4
    draw d1   d1 is fed already: its cell becomes the branch's, and the next draw takes the logits of d1, in this step
    draw x    x is no draft: it is fed in the next step

A draft changes no token. What a branch draws depends on its key and on the logits, and a confirmed draft has the token,
the position and the visible tokens that it would have had otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pastalang.runtime.step import CellId

if TYPE_CHECKING:
    from pastalang.runtime.scheduler.state import BranchState, RequestState

FROM_BRANCH = -1  # the parent of a draft that follows the branch's last token
FORCED = -1  # the kind of a token that the type forces after the guess before it
PROBE = -2  # the kind of a node that is never drawn: its logits are the drafter's


class Guess(NamedTuple):
    """A token after the guess `parent` of the same tree. `chance`: that it is right, if its parent is.

    `kind` is the drafter's own, to learn from.
    """

    token: int
    parent: int
    chance: float
    kind: int = 0


class Drafter(Protocol):
    """Guesses what branches draw next. It holds no cells and no random numbers."""

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        """A tree for each of the branches, parents before children, of at most `most` guesses together.

        Every branch waits for the logits of its last token, which a step of `step` tokens feeds.
        """
        ...

    def learn(self, tree: DraftTree) -> None:
        """Which guesses were right."""
        ...

    def remember(self, request: RequestState) -> None:
        """A request is over, whether it has an answer or not."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """A guess as it was fed. `row` is that of its logits."""

    guess: Guess
    position: int
    cell: CellId
    row: int


@dataclass(eq=False, slots=True)
class DraftTree:
    """The drafts after one branch in one step. `after` is the number of the branch's tokens when they were fed.

    `is_weighed`: they were fed because they were worth their time.
    """

    branch: BranchState
    after: int
    nodes: list[Node]
    is_weighed: bool
    confirmed: list[int] = field(default_factory=list)  # nodes, each the child of the one before

    def confirm(self) -> None:
        """Make the tokens of the branch that are needed next its own, as far as they are drafts."""
        branch, memory = self.branch, self.branch.memory
        while memory.fed < memory.demand and (found := self._next()) is not None:
            self.confirmed.append(found)
            branch.take_draft(self.nodes[found].cell)

    def row_of(self, token: int) -> int | None:
        """The row of logits of a token of the branch, if it is a confirmed draft."""
        place = token - self.after
        return self.nodes[self.confirmed[place]].row if 0 <= place < len(self.confirmed) else None

    def probes(self) -> list[list[int]]:
        """The rows of logits of the probes after the last confirmed draft, by their distance from it."""
        found: list[list[int]] = []
        hosts = {self.last}
        while level := [
            place for place, node in enumerate(self.nodes) if node.guess.kind == PROBE and node.guess.parent in hosts
        ]:
            found.append([self.nodes[place].row for place in level])
            hosts = set(level)
        return found

    @property
    def last(self) -> int:
        """The node that was confirmed last."""
        return self.confirmed[-1] if self.confirmed else FROM_BRANCH

    @property
    def unused(self) -> list[CellId]:
        kept = set(self.confirmed)
        return [node.cell for number, node in enumerate(self.nodes) if number not in kept]

    def _next(self) -> int | None:
        """The draft that is the next token of the branch. After a join a token sees more than a draft has seen."""
        sequence, number = self.branch.sequence, self.branch.memory.fed
        if number != self.after + len(self.confirmed) or number in sequence.joins:
            return None
        wanted = (sequence.tokens[number], self.last, sequence.positions[number])
        for place, node in enumerate(self.nodes):
            if node.guess.kind != PROBE and (node.guess.token, node.guess.parent, node.position) == wanted:
                return place
        return None
