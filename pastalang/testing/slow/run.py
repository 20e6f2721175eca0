"""All branches of a run: who there is, who may come, and the rules of forks. Nobody decides who goes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pastalang.plan.plan import ROOT, Address, BranchId, Each, Fork, Form, Join, TurnStart
from pastalang.plan.plan import Place as PlaceOf
from pastalang.plan.structure import walk_plan
from pastalang.runtime.binding.chat import Turn, turns_of
from pastalang.testing.slow.answer import Items, Loop, Of, Place, agree
from pastalang.testing.slow.branch import Instance, forked_in
from pastalang.testing.slow.holes import Given
from pastalang.testing.slow.token import Token


@dataclass(frozen=True)
class Cost:
    """`passes`: where nothing waits without need, and every branch is fed as much at once as there is."""

    passes: int
    drawn: int
    fed: int


class Run:
    def __init__(self, given: Given) -> None:
        self.given = given
        self.stacks: set[Loop] = set()
        self.begun = 0  # so many of the branches are being written
        self.branches = [Instance(given.plan.branch(ROOT), {}, (), (), 0, {}, (), 0)]

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        starts = [segment for _, _, segment in walk_plan(self.given.plan) if isinstance(segment, TurnStart)]
        roles = [one.role for one in sorted(starts, key=lambda one: one.index)]
        thinks = any(getattr(segment, "form", None) is Form.THOUGHT for _, _, segment in walk_plan(self.given.plan))
        return turns_of(self.given.encoder.tokenizer, roles, thinks=thinks)

    @cached_property
    def forkers(self) -> dict[BranchId, BranchId]:
        """Who forks a branch."""
        return {child: branch.id for branch in self.given.plan.branches for child in forked_in(branch.segments)}

    @cached_property
    def joined(self) -> set[BranchId]:
        """Those that somebody joins."""
        joins = [segment for _, _, segment in walk_plan(self.given.plan) if isinstance(segment, Join)]
        return {id for join in joins for id in join.branches}

    @cached_property
    def _placed(self) -> set[BranchId]:
        """Those whose text stands elsewhere than at their fork."""
        return {segment.branch for _, _, segment in walk_plan(self.given.plan) if isinstance(segment, PlaceOf)}

    # ── what it took ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def passes(self) -> int:
        return max(one.pass_ for one in self.branches)

    @property
    def cost(self) -> Cost:
        """Nothing is fed but what somebody sees who draws."""
        asked = [token for one in self.branches for token in one.asked]
        return Cost(self.passes, len(asked), len(_with_all_seen(asked)))

    def count_attempts(self) -> None:
        fields = {id(one): one for branch in self.branches for one in branch.fields}
        times = Counter((one.hole.field, one.items) for one in fields.values())
        for one in fields.values():
            one.attempts = times[one.hole.field, one.items]

    # ── who there is ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def live(self) -> Iterator[Instance]:
        """Those that the answer is made of."""
        return (one for one in self.branches if not one.is_out)

    def instances(self, id: BranchId, place: Place) -> list[Instance]:
        """Those of the same items, in order."""
        found = [one for one in self.live if one.spec.id == id and agree(one.place, place)]
        return sorted(found, key=lambda one: one.items)

    def is_complete(self, id: BranchId, place: Place, joiner: Instance) -> bool:
        """Whether all of these there will ever be have ended."""
        return not self._may_begin(id, place, joiner) and all(one.has_ended for one in self.instances(id, place))

    def _may_begin(self, id: BranchId, place: Place, joiner: Instance) -> bool:
        """Whether anybody else may still fork such a branch, or may still be forked who would."""
        if id == ROOT or self.forkers[id] == joiner.spec.id:
            return False
        forkers = self.instances(self.forkers[id], place)
        return any(one.may_fork(id, place) for one in forkers) or self._may_begin(self.forkers[id], place, joiner)

    def values_before(self, branch: Instance) -> tuple[Instance, ...] | None:
        """The values before one in its lock-step group, in order; None while some have not ended."""
        mine = branch.spec.lockstep
        assert mine is not None
        specs = [
            spec
            for spec in self.given.plan.branches
            if spec.lockstep is not None and spec.lockstep.group == mine.group and spec.lockstep.index < mine.index
        ]
        specs.sort(key=lambda spec: spec.lockstep.index if spec.lockstep else 0)
        found = [one for spec in specs for one in self.instances(spec.id, branch.place)]
        return tuple(found) if all(one.has_ended for one in found) else None

    # ── forks ────────────────────────────────────────────────────────────────────────────────────────────

    def fork(self, branch: Instance, segment: Fork, place: Place) -> None:
        child = self._begin(branch, segment.branch, place, branch.position, {})
        branch.leave(child.spec.reserve)
        if segment.branch not in self._placed:
            branch.page_now.append(Of(child))

    def fan_out(self, branch: Instance, each: Each, place: Place, address: Address, elements: Sequence[Any]) -> None:
        """Items stand one behind another in the room reserved for them; stacked documents at the same place."""
        loop = (branch.spec.id, address)
        if each.stacked:
            self.stacks.add(loop)
        items = Items(each.name, stacked=each.stacked)
        branch.page_now.append(items)
        step = 0 if each.stacked else self.given.plan.branch(each.branch).reserve
        for number, element in enumerate(elements):
            named = {each.name: element}
            child = self._begin(branch, each.branch, {**place, loop: number}, branch.position, named)
            items.pages.append([Of(child)])
            branch.leave(step)

    def _begin(self, parent: Instance, id: BranchId, place: Place, position: int, named: dict[str, Any]) -> Instance:
        if parent.again is not None:
            child = parent.again.point.branch.forked[len(parent.forked)]
        else:
            key = tuple(item for loop, item in place.items() if loop not in self.stacks)
            child = Instance(
                self.given.plan.branch(id), place, key, parent.path, position, {**parent.names, **named},
                (*parent.sees, parent), parent.pass_,
            )  # fmt: skip
            self.add(child)
        parent.forked.append(child)
        return child

    def add(self, branch: Instance) -> None:
        """Attempts are counted for each branch of the plan at each place."""
        branch.attempt += sum(one.spec.id == branch.spec.id and one.place == branch.place for one in self.branches)
        self.branches.append(branch)


def _with_all_seen(tokens: Iterable[Token]) -> set[int]:
    """By identity: these, and whatever was seen by any of them or by what it sees."""
    found: set[int] = set()
    waiting = list(tokens)
    while waiting:
        token = waiting.pop()
        if id(token) not in found:
            found.add(id(token))
            waiting += token.sees
    return found
