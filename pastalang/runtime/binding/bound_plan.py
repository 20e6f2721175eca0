"""A plan bound to a tokenizer: everything that all runs of the plan share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from pastalang.plan.branches import Branch, BranchId, Form, Hole, InputText, Join, Text, TurnStart
from pastalang.plan.build import with_history
from pastalang.plan.machine import Machine
from pastalang.plan.plan import Plan
from pastalang.plan.structure import Nesting, nesting_of, placed_in, shared_loops, walk_plan
from pastalang.program.program import Role
from pastalang.program.types import Anything, Drafts, Null, Regex, String
from pastalang.program.visit import arms_of
from pastalang.runtime.binding.chat import Turn, turns_of
from pastalang.runtime.binding.shown_keys import with_keys_in_words
from pastalang.runtime.binding.whitespace import move_whitespace
from pastalang.runtime.constraints.guide import Guide, GuideError, TokenMask
from pastalang.runtime.constraints.masks import mask_of
from pastalang.runtime.constraints.tokens import BoundedCache
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import DeadEnd
from pastalang.runtime.inputs import roles_of
from pastalang.runtime.quotations import QuotingHole, quoting_holes
from pastalang.values.describe import counted
from pastalang.values.lengths import min_length
from pastalang.values.quotes import quotes
from pastalang.values.schema.split import has_checks

MOST_HISTORIES = 64  # sequences of roles for which a plan is kept
_MOST_MASKS = 10_000


class MakeGuide(Protocol):
    def __call__(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Guide:
        """The guide of a hole. `sources` are the input texts by name, for values that quote them.

        The guide of a hole with a `space` covers the space and the value.
        """
        ...


@dataclass(frozen=True, eq=False)
class BoundPlan:
    """`plan` is the plan as built. `bound` is the plan that runs, with white space moved to suit the
    tokenizer, and keys spelled to suit the weights."""

    plan: Plan
    encoder: Encoder
    make_guide: MakeGuide
    keys_in_words: bool = False

    @cached_property
    def bound(self) -> Plan:
        return move_whitespace(with_keys_in_words(self.plan) if self.keys_in_words else self.plan, self.encoder)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """A plan that begins with text outside of a turn is no chat: nothing is written around its answer."""
        starts = {
            segment.index: segment.role for _, _, segment in walk_plan(self.plan) if isinstance(segment, TurnStart)
        }
        if not starts:
            return ()
        if isinstance(self.plan.branches[0].segments[0], Text | InputText):
            return (Turn("", ""),) * len(starts)
        return turns_of(self.encoder.tokenizer, [starts[index] for index in sorted(starts)], thinks=self._thinks)

    def for_values(self, values: Mapping[str, Any]) -> BoundPlan:
        """The same plan with the turns of a history, if it has one. Plans of the same roles are bound once."""
        history = self.plan.history
        roles = roles_of(values[history.name]) if history is not None else ()
        if not roles:
            return self
        if roles not in self._with_history:
            found = replace(self, plan=with_history(self.plan, roles))
            _ = found.turns  # a chat template that refuses the turns refuses the request
            self._with_history[roles] = found
        return self._with_history[roles]

    @cached_property
    def _with_history(self) -> BoundedCache[tuple[Role, ...], BoundPlan]:
        return BoundedCache(MOST_HISTORIES)

    @cached_property
    def checked(self) -> BoundPlan:
        """Itself. Raises what is wrong with the plan for this tokenizer."""
        _ = self.turns  # a chat template that refuses the turns refuses the call
        self.check_limits()
        return self

    def check_limits(self) -> None:
        """Raises `DeadEnd` if a token limit leaves no value, as far as that is known without inputs."""
        for hole in self._holes:
            if hole.form is Form.JSON:
                self._check_limit(hole)

    def _check_limit(self, hole: Hole) -> None:
        types = dict(self.plan.types)
        may_be_left_out = any(isinstance(arm, Null) for arm in arms_of(hole.type, types))
        if may_be_left_out or min_length(hole.type) <= hole.max_tokens or quotes(hole.type, types):
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

    @cached_property
    def has_checks(self) -> bool:
        """Whether values of the answer are checked when they are finished."""
        return has_checks([*(hole.type for hole in self._holes), *dict(self.plan.types).values()])

    @cached_property
    def drafts(self) -> frozenset[Drafts | None]:
        """What its holes say about guesses."""
        return frozenset(hole.sampling.drafts for hole in self._holes)

    @property
    def _thinks(self) -> bool:
        """Whether the model thinks before it answers."""
        return any(hole.form is Form.THOUGHT for hole in self._holes)

    @property
    def _holes(self) -> Iterator[Hole]:
        return (segment for _, _, segment in walk_plan(self.plan) if isinstance(segment, Hole))

    @cached_property
    def nesting(self) -> Nesting:
        return nesting_of(self.plan)

    @cached_property
    def machine(self) -> Machine:
        return Machine(self.bound, self.nesting)

    @cached_property
    def quoting(self) -> Mapping[str, QuotingHole]:
        """The holes whose values quote, by their fields."""
        return quoting_holes(self.plan, self.nesting)

    @cached_property
    def placed(self) -> frozenset[BranchId]:
        """The branches whose text is placed elsewhere than at their fork."""
        return placed_in(branch.segments for branch in self.plan.branches)

    @cached_property
    def joiners(self) -> Mapping[BranchId, tuple[tuple[BranchId, int], ...]]:
        """For each branch, the branches that join it, each with the number of loops that contain both."""
        found: dict[BranchId, dict[BranchId, int]] = {branch.id: {} for branch in self.plan.branches}
        loops = self.nesting.loops
        for branch, _, segment in walk_plan(self.plan):
            for joined in segment.branches if isinstance(segment, Join) else ():
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
    def _masks(self) -> BoundedCache[frozenset[int], TokenMask]:
        return BoundedCache(_MOST_MASKS)

    def mask(self, tokens: frozenset[int]) -> TokenMask:
        """The mask that allows exactly these tokens. Equal sets of tokens share one mask."""
        return self._masks.cached(tokens, lambda: mask_of(self.encoder.size, tokens))
