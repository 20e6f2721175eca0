"""A plan bound to a tokenizer: what every run of it shares. Plan, tokenizer, guides come in, a `TokenPlan` goes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from pastalang.plan.plan import Branch, BranchId, Form, Hole, Join, Place, Plan, TurnStart
from pastalang.plan.structure import Nesting, nesting_of, shared_loops, walk
from pastalang.program.types import Anything, Null, Regex, String
from pastalang.runtime.binding.chat import Turn, turns_of
from pastalang.runtime.binding.whitespace import move_whitespace
from pastalang.runtime.constraints.guide import Guide, GuideError, TokenMask
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import DeadEnd
from pastalang.values.describe import counted
from pastalang.values.lengths import shortest_text
from pastalang.values.token_limits import arms_of, quotes


class MakeGuide(Protocol):
    def __call__(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Guide:
        """The guide of a hole. `sources` are the texts of the inputs, by name, for spans copied from them.

        A hole that was given white space (`leads.given_to`) wants a guide of that and the value."""
        ...


@dataclass(frozen=True, eq=False)
class BoundPlan:
    """`plan` is as it was made; `bound` is what runs: there, white space is handed over where the tokenizer asks."""

    plan: Plan
    encoder: Encoder
    make_guide: MakeGuide

    @cached_property
    def bound(self) -> Plan:
        return move_whitespace(self.plan, self.encoder)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        starts = {
            segment.index: segment.role
            for branch in self.plan.branches
            for _, segment in walk(branch.segments)
            if isinstance(segment, TurnStart)
        }
        if not starts:
            return ()
        return turns_of(self.encoder.tokenizer, [starts[index] for index in sorted(starts)], thinks=self._thinks)

    def refuse_what_cannot_fit(self) -> None:
        """Raises `DeadEnd` where a limit leaves no value, as far as that can be known before any input is."""
        for branch in self.plan.branches:
            for _, segment in walk(branch.segments):
                if isinstance(segment, Hole) and segment.form is Form.JSON:
                    self._refuse_too_little(segment)

    def _refuse_too_little(self, hole: Hole) -> None:
        types = dict(self.plan.types)
        may_be_left_out = any(isinstance(arm, Null) for arm in arms_of(hole.type, types))
        if may_be_left_out or shortest_text(hole.type) <= hole.max_tokens or quotes(hole.type, types):
            return
        try:
            needed = self.make_guide(hole, self.plan, {}).shortest
        except GuideError as problem:
            raise DeadEnd(str(problem), plan=self.plan, field=hole.field, span=hole.span) from problem
        if needed > hole.max_tokens:
            name = "max" if isinstance(hole.type, String | Regex | Anything) else "max_tokens"
            reason = f"no value fits into {counted(hole.max_tokens, 'token')}; a short one takes {needed}"
            raise DeadEnd(
                f"{reason}: write `{name}={needed}` or more",
                plan=self.plan,
                field=hole.field,
                span=hole.span,
            )

    @property
    def _thinks(self) -> bool:
        """Whether the model writes a thought before its answer."""
        segments = (segment for branch in self.plan.branches for _, segment in walk(branch.segments))
        return any(isinstance(segment, Hole) and segment.form is Form.THOUGHT for segment in segments)

    @cached_property
    def nesting(self) -> Nesting:
        return nesting_of(self.plan)

    @cached_property
    def placed(self) -> frozenset[BranchId]:
        """The branches whose text stands elsewhere than at their fork."""
        return frozenset(
            segment.branch
            for branch in self.plan.branches
            for _, segment in walk(branch.segments)
            if isinstance(segment, Place)
        )

    @cached_property
    def joiners(self) -> Mapping[BranchId, tuple[tuple[BranchId, int], ...]]:
        """Who names a branch in a join, and how many loops the two branches stand in together."""
        found: dict[BranchId, dict[BranchId, int]] = {branch.id: {} for branch in self.plan.branches}
        for branch in self.plan.branches:
            for _, segment in walk(branch.segments):
                if isinstance(segment, Join):
                    loops = self.nesting.loops
                    for joined in segment.branches:
                        found[joined][branch.id] = shared_loops(loops[branch.id], loops[joined])
        return {id: tuple(others.items()) for id, others in found.items()}

    @cached_property
    def lockstep_groups(self) -> Mapping[int, tuple[Branch, ...]]:
        """The members of each lock-step group, in the order of their indexes."""
        groups: dict[int, list[Branch]] = {}
        for branch in self.bound.branches:
            if branch.lockstep is not None:
                groups.setdefault(branch.lockstep.group, []).append(branch)
        return {
            group: tuple(sorted(members, key=lambda branch: branch.lockstep.index if branch.lockstep else 0))
            for group, members in groups.items()
        }

    @cached_property
    def _masks(self) -> dict[frozenset[int], TokenMask]:
        return {}

    def mask(self, tokens: Iterable[int]) -> TokenMask:
        """The mask that allows exactly these tokens; the same one for the same tokens."""
        wanted = frozenset(tokens)
        known = self._masks.get(wanted)
        if known is None:
            known = np.zeros(-(-self.encoder.size // 32), dtype=np.uint32)
            for token in wanted:
                known[token // 32] |= np.uint32(1 << (token % 32))
            known.setflags(write=False)
            if len(self._masks) < 10_000:
                self._masks[wanted] = known
        return known
