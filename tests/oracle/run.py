"""All branches of a run: those that exist, those that may still be forked, and the rules of forks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pastalang.plan.branches import ROOT, Address, BranchId, Each, Fork, Form, Hole, Join, Place, TurnStart
from pastalang.plan.structure import walk_plan
from pastalang.runtime.binding.chat import Turn, turns_of
from tests.oracle.answer import Loop, LoopItems, WrittenBranch, WrittenLoop, same_items
from tests.oracle.branch import BranchState, Instance, Key, Lead, forked_in
from tests.oracle.holes import Request
from tests.oracle.token import Token


@dataclass(frozen=True)
class Cost:
    """The tokens drawn and fed, and the passes of a schedule in which no branch waits without need."""

    passes: int
    drawn: int
    fed: int


@dataclass
class Again:
    """How a run repeats the one before. Where a document is `settled`, what has joined something newer is new."""

    before: dict[Instance, BranchState]
    leads: dict[Instance, list[Lead]] = field(default_factory=dict)
    settled: set[tuple[int, ...]] = field(default_factory=set)


class Run:
    """`branches` are those of the present run of the plan, `all_branches` those of all runs of it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.stacks: set[Loop] = set()
        self.all_branches: list[BranchState] = []
        self.attempts: Counter[Key] = Counter()
        self.number = 0
        self.prompt: int | None = None  # how many tokens the root had when it first did something else than be fed
        self.begin(None)

    def begin(self, again: Again | None) -> None:
        """Run the plan once more. All of the prompt but its last token is in memory already."""
        root = BranchState(self.request.plan.branch(ROOT), {}, (), (), 0, {}, (), self.passes if again else 0)
        if again is not None:
            root.kept = self.branches[0].tokens[: max(0, (self.prompt or 0) - 1)]
        self.again = again
        self.number += 1
        self.started = 0  # how many of the branches are being written
        self.branches: list[BranchState] = []
        self.add(root, None)

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
        return max(one.last_pass for one in self.all_branches)

    @property
    def cost(self) -> Cost:
        """Only tokens that some draw sees are fed."""
        drawn_after = [token for one in self.all_branches for token in one.drawn_after]
        return Cost(self.passes, len(drawn_after), len(_with_all_seen(drawn_after)))

    def count_attempts(self) -> None:
        for one in (one for branch in self.branches for one in branch.fields):
            one.attempts = self.attempts[one.hole.field, one.items]

    # ── branches ─────────────────────────────────────────────────────────────────────────────────────────

    def branches_at(self, id: BranchId, loops: LoopItems) -> list[BranchState]:
        """The branches of the answer with these items, in order."""
        found = [one for one in self.branches if one.spec.id == id and same_items(one.loops, loops)]
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
        draw_items = tuple(item for loop, item in loops.items() if loop not in self.stacks)
        child = BranchState(
            self.request.plan.branch(id), loops, draw_items, parent.path, position, {**parent.names, **names},
            (*parent.sees, parent), parent.last_pass,
        )  # fmt: skip
        self.add(child, parent)
        parent.forked.append(child)
        return child

    def add(self, branch: BranchState, parent: BranchState | None) -> None:
        branch.run, branch.since = self.number, self.number
        if self.again is not None and (parent is None or parent.before is not None):
            branch.before = self.again.before.get(branch.instance)
            branch.leads = self.again.leads.get(branch.instance, ())
        if branch.before is not None:
            branch.since = branch.before.since
        branch.is_stale = parent is not None and parent.is_stale
        self.branches.append(branch)
        self.all_branches.append(branch)

    def note_joined(self, branch: BranchState, joined: Sequence[BranchState]) -> None:
        """A branch that repeats has joined others. Is it out of date?"""
        branch.joined += joined
        is_late = any(one.is_stale or one.since > branch.since for one in joined)
        if self.again is None or branch.before is None or not is_late:
            return
        if branch.document in self.again.settled:
            branch.become_new()
        else:
            branch.is_stale = True


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
