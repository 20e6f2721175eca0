"""All branches of a run: those that exist, those that may still be forked, and the rules of forks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pastalang.plan.branches import ROOT, Address, BranchId, Each, Fork, Form, Hole, Join, Place, TurnStart
from pastalang.plan.structure import walk_plan
from pastalang.runtime.binding.chat import Turn, turns_of
from tests.oracle.answer import Loop, LoopItems, WrittenBranch, WrittenLoop, same_items
from tests.oracle.branch import BranchState, forked_in
from tests.oracle.holes import Request
from tests.oracle.token import Token


@dataclass(frozen=True)
class Cost:
    """The tokens drawn and fed, and the passes of a schedule in which no branch waits without need."""

    passes: int
    drawn: int
    fed: int


class Run:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.stacks: set[Loop] = set()
        self.started = 0  # how many of the branches are being written
        self.branches = [BranchState(request.plan.branch(ROOT), {}, (), (), 0, {}, (), 0)]

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        starts = [segment for _, _, segment in walk_plan(self.request.plan) if isinstance(segment, TurnStart)]
        roles = [one.role for one in sorted(starts, key=lambda one: one.index)]
        thinks = any(getattr(segment, "form", None) is Form.THOUGHT for _, _, segment in walk_plan(self.request.plan))
        return turns_of(self.request.encoder.tokenizer, roles, thinks=thinks)

    @cached_property
    def forked_by(self) -> dict[BranchId, BranchId]:
        """The branch that forks each branch."""
        return {child: branch.id for branch in self.request.plan.branches for child in forked_in(branch.segments)}

    @cached_property
    def joined(self) -> set[BranchId]:
        """The branches that are joined."""
        joins = [segment for _, _, segment in walk_plan(self.request.plan) if isinstance(segment, Join)]
        return {id for join in joins for id in join.branches}

    @cached_property
    def _placed(self) -> set[BranchId]:
        """The branches whose text is not placed at their fork."""
        return {segment.branch for _, _, segment in walk_plan(self.request.plan) if isinstance(segment, Place)}

    # ── cost ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def passes(self) -> int:
        return max(one.last_pass for one in self.branches)

    @property
    def cost(self) -> Cost:
        """Only tokens that some draw sees are fed."""
        drawn_after = [token for one in self.branches for token in one.drawn_after]
        return Cost(self.passes, len(drawn_after), len(_with_all_seen(drawn_after)))

    def count_attempts(self) -> None:
        fields = {id(one): one for branch in self.branches for one in branch.fields}
        times = Counter((one.hole.field, one.items) for one in fields.values())
        for one in fields.values():
            one.attempts = times[one.hole.field, one.items]

    # ── branches ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def live(self) -> Iterator[BranchState]:
        """The branches of the answer."""
        return (one for one in self.branches if not one.is_hidden)

    def branches_at(self, id: BranchId, loops: LoopItems) -> list[BranchState]:
        """The branches of the answer with these items, in order."""
        found = [one for one in self.live if one.spec.id == id and same_items(one.loops, loops)]
        return sorted(found, key=lambda one: one.items)

    def is_complete(self, id: BranchId, loops: LoopItems, joiner: BranchState) -> bool:
        """Whether no further branch of this kind can be forked, and all of them have ended."""
        return not self._may_fork(id, loops, joiner) and all(one.has_ended for one in self.branches_at(id, loops))

    def _may_fork(self, id: BranchId, loops: LoopItems, joiner: BranchState) -> bool:
        """Whether a branch other than the joiner may still fork one, or be forked and then fork one."""
        if id == ROOT or self.forked_by[id] == joiner.spec.id:
            return False
        forkers = self.branches_at(self.forked_by[id], loops)
        return any(one.may_fork(id, loops) for one in forkers) or self._may_fork(self.forked_by[id], loops, joiner)

    def values_before(self, branch: BranchState) -> tuple[BranchState, ...] | None:
        """The earlier values of its lock-step group, in order; None while some have not ended."""
        own = branch.spec.lockstep
        assert own is not None
        specs = [
            spec
            for spec in self.request.plan.branches
            if spec.lockstep is not None and spec.lockstep.group == own.group and spec.lockstep.index < own.index
        ]
        specs.sort(key=lambda spec: spec.lockstep.index if spec.lockstep else 0)
        found = [one for spec in specs for one in self.branches_at(spec.id, branch.loops)]
        return tuple(found) if all(one.has_ended for one in found) else None

    # ── forks ────────────────────────────────────────────────────────────────────────────────────────────

    def fork(self, branch: BranchState, segment: Fork, loops: LoopItems) -> None:
        child = self._start(branch, segment.branch, loops, branch.position, {})
        branch.skip(child.spec.reserve)
        if segment.branch not in self._placed:
            branch.written_here.append(WrittenBranch(child))

    def start_thread(self, branch: BranchState, hole: Hole, loops: LoopItems, reserve: int) -> BranchState:
        """Fork a branch that the model begins in its text."""
        assert hole.threads is not None
        thread = self._start(branch, hole.threads, loops, branch.position, {})
        branch.skip(reserve)
        return thread

    def repeat_fork(self, branch: BranchState) -> None:
        """During a replay, the next branch that the older one forked belongs to the new one."""
        assert branch.replay is not None
        branch.forked.append(branch.replay.checkpoint.branch.forked[len(branch.forked)])

    def fan_out(
        self, branch: BranchState, each: Each, loops: LoopItems, address: Address, elements: Sequence[Any]
    ) -> None:
        """Fork a branch for each element. Each item reserves positions; stacked documents all start at the same one."""
        loop = (branch.spec.id, address)
        if each.stacked:
            self.stacks.add(loop)
        written = WrittenLoop(each.name, stacked=each.stacked)
        branch.written_here.append(written)
        reserve = 0 if each.stacked else self.request.plan.branch(each.branch).reserve
        for number, element in enumerate(elements):
            child = self._start(branch, each.branch, {**loops, loop: number}, branch.position, {each.name: element})
            written.items.append([WrittenBranch(child)])
            branch.skip(reserve)

    def _start(
        self, parent: BranchState, id: BranchId, loops: LoopItems, position: int, names: dict[str, Any]
    ) -> BranchState:
        if parent.replay is not None:
            child = parent.replay.checkpoint.branch.forked[len(parent.forked)]
        else:
            draw_items = tuple(item for loop, item in loops.items() if loop not in self.stacks)
            child = BranchState(
                self.request.plan.branch(id), loops, draw_items, parent.path, position, {**parent.names, **names},
                (*parent.sees, parent), parent.last_pass,
            )  # fmt: skip
            self.add(child)
        parent.forked.append(child)
        return child

    def add(self, branch: BranchState) -> None:
        """Counts the attempts for each branch of the plan and its items."""
        branch.attempt += sum(one.spec.id == branch.spec.id and one.loops == branch.loops for one in self.branches)
        self.branches.append(branch)


def _with_all_seen(tokens: Iterable[Token]) -> set[int]:
    """These tokens and all that they see, directly or through others, by identity."""
    found: set[int] = set()
    waiting = list(tokens)
    while waiting:
        token = waiting.pop()
        if id(token) not in found:
            found.add(id(token))
            waiting += token.sees
    return found
