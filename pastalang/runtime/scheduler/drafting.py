"""Drafts from step to step: who guesses, what a step has fed, and which rows have yet to see what was confirmed.

propose       while a step is built
begin         the step has run: its drafts can be confirmed
probed        all is drawn: the probes whose logits predict what comes next
end           the step is over: what was not confirmed is given back
show          the next step: rows see what was confirmed
"""

from __future__ import annotations

from collections.abc import Sequence

from pastalang.runtime.scheduler.draft_tree import Drafter, DraftTree, Guess
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.step import Edit, Show


class Drafting:
    def __init__(self, memory: Memory, drafter: Drafter | None) -> None:
        self.drafter = drafter
        self._memory = memory
        self._trees: Sequence[DraftTree] = ()  # of the step that has run
        self._confirmed: list[BranchState] = []  # branches whose rows do not see their confirmed drafts yet

    def clear(self) -> None:
        """Forget the drafts of a step that was broken off; their cells are free already."""
        self._trees = ()
        self._confirmed.clear()

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        """A tree for each branch."""
        if self.drafter is None or most <= 0:
            return [()] * len(branches)
        return self.drafter.propose(branches, step=step, most=most)

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
