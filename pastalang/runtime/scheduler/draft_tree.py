"""Drafts: tokens that are fed on the chance that a branch draws them next.

    step      … last token ── d1 ── d2 ── d3       the branch draws from the logits of its last token, as ever
                                  │     └── p1 ── p2    probes: their logits predict tokens ahead
                                  └── d4
    draw d1   d1 is fed already: its cell becomes the branch's, and the next draw takes the logits of d1, in this step
    draw x    x is no draft: it is fed in the next step

A draft changes no token. What a branch draws depends on its key and on the logits, and a confirmed draft has the token,
the position and the visible tokens that it would have had otherwise. `Drafting` keeps them from step to step:

    propose       while a step is built
    begin         the step has run: its drafts can be confirmed
    probed        all is drawn: the probes whose logits predict what comes next
    end           the step is over: what was not confirmed is given back
    show          the next step: rows see what was confirmed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.step import CellId, Edit, Show

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


def pruned(guesses: Sequence[Guess], depth: int) -> Sequence[Guess]:
    """The tree without guesses more than `depth` tokens ahead."""
    if len(guesses) <= depth:
        return guesses
    kept, ahead, numbers = list[Guess](), {FROM_BRANCH: 0}, {FROM_BRANCH: FROM_BRANCH}
    for place, guess in enumerate(guesses):
        if ahead.get(guess.parent, depth) < depth:
            ahead[place], numbers[place] = ahead[guess.parent] + 1, len(kept)
            kept.append(guess._replace(parent=numbers[guess.parent]))
    return kept


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


class Drafting:
    def __init__(self, memory: Memory, drafter: Drafter | None) -> None:
        self.drafter = drafter
        self._memory = memory
        self._trees: Sequence[DraftTree] = ()  # of the step that has run
        self._confirmed: list[BranchState] = []  # branches whose rows do not see their confirmed drafts yet
        self.failed: dict[RequestState, Exception] = {}  # those whose guesses cannot be made, until the step has ended

    def clear(self) -> None:
        """Forget the drafts of a step that was broken off; their cells are free already."""
        self._trees = ()
        self._confirmed.clear()
        self.failed.clear()

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        """A tree for each branch. Where that fails, all go without, and it is found out whose guesses fail."""
        if self.drafter is None or most <= 0:
            return [()] * len(branches)
        try:
            return self.drafter.propose(branches, step=step, most=most)
        except Exception as problem:
            for branch in branches:
                try:
                    self.drafter.propose([branch], step=step, most=most)
                except Exception as own:
                    self.failed[branch.request] = own
            self.failed = self.failed or {branch.request: problem for branch in branches}
            return [()] * len(branches)

    @property
    def is_behind(self) -> bool:
        """Whether a row has yet to see drafts that were confirmed."""
        return bool(self._confirmed)

    def show(self) -> list[Edit]:
        memories = (branch.memory for branch in self._confirmed)
        return [Show(one.row, tuple(one.unseen)) for one in memories if one.unseen and one.row is not None]

    def begin(self, trees: Sequence[DraftTree]) -> None:
        for branch in self._confirmed:
            branch.memory.unseen.clear()
        self._confirmed.clear()
        self._trees = trees
        for tree in trees:
            tree.branch.memory.draft = tree
            tree.branch.request.counts.drafted += len(tree.nodes)

    def probed(self) -> list[tuple[DraftTree, list[list[int]]]]:
        """Trees whose branches go on after the step, with the rows of logits of the probes that they go on from."""
        found = ((tree, tree.probes()) for tree in self._trees if tree.branch.pending.hole is not None)
        return [(tree, rows) for tree, rows in found if rows]

    def end(self, trees: Sequence[DraftTree]) -> None:
        self._trees = ()
        for tree in trees:
            tree.branch.memory.draft = None
            forward_pass = tree.branch.request.counts.forward_passes
            tree.branch.record.drafts.append((forward_pass, len(tree.nodes), len(tree.confirmed)))
            if tree.confirmed:
                self._confirmed.append(tree.branch)
            if self.drafter is not None:
                self.drafter.learn(tree)
        self.give_back(trees)

    def give_back(self, trees: Sequence[DraftTree]) -> None:
        for tree in trees:
            self._memory.give_back_drafts(tree.unused)

    def remember(self, request: RequestState) -> None:
        if self.drafter is not None:
            self.drafter.remember(request)
