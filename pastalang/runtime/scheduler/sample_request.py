"""The request for one token: random key, sampling, mask and penalty of a branch that waits for logits."""

from __future__ import annotations

from functools import lru_cache

from pastalang.plan.branches import Hole
from pastalang.program.types import Sampling
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.option_groups import option_groups
from pastalang.runtime.errors import DeadEnd, NotFiniteLogits, OutOfMemory, RunError
from pastalang.runtime.sampling.rng import RandomKey
from pastalang.runtime.sampling.sampler import NoMemory, NotFinite, Outcome, SampleRequest
from pastalang.runtime.scheduler.hole import Decision
from pastalang.runtime.scheduler.state import BranchState


def penalty_tokens(branch: BranchState, sampling: Sampling) -> tuple[int, ...]:
    """The tokens that a repetition penalty counts: those of the branch itself, and its beginning if that is kept."""
    if sampling.repetition_penalty in (None, 1.0):
        return ()
    beginning = (seen.branch.sequence.tokens[: seen.length] for seen in branch.sequence.own_before)
    return (*(token for tokens in beginning for token in tokens), *branch.sequence.tokens)


def sample_error(branch: BranchState, outcome: Outcome) -> RunError:
    hole, asked = branch.pending.hole, _asked(branch)
    kinds: dict[type[object], type[RunError]] = {NotFinite: NotFiniteLogits, NoMemory: OutOfMemory}
    kind = kinds.get(type(outcome), DeadEnd)
    items = branch.cursor.items if hole is None else hole.field.items
    return kind(str(outcome), plan=branch.request.plan, field=asked.field, items=items, span=asked.span)


def sample_request(branch: BranchState) -> SampleRequest:
    hole, decision, options = branch.pending.hole, branch.pending.decision, None
    allowed: TokenMask | None
    if hole is not None:
        allowed = mask = hole.allowed()
        options = option_groups(hole.state, mask)
    else:
        assert decision is not None
        tokens = decision.allowed()
        allowed = None if tokens is None else branch.request.tokens.mask(tokens)
    sampling = sampling_of(branch)
    return SampleRequest(draw_key(branch), sampling, allowed, penalty_tokens(branch, sampling), options)


def sampling_of(branch: BranchState) -> Sampling:
    """How a branch that fills a hole or decides samples."""
    return _combined(_asked(branch).sampling, branch.request.base)


def _asked(branch: BranchState) -> Hole | Decision:
    opened, decision = branch.pending.hole, branch.pending.decision
    if opened is not None:
        return opened.hole
    assert decision is not None
    return decision


def draw_key(branch: BranchState, *, ahead: int = 0) -> RandomKey:
    """The key of its next draw, or of the one `ahead` draws later."""
    draws, again = len(branch.record.drawn), branch.request.again
    purpose = "" if again is None else f"attempt {again.number}"  # other draws than those of the runs before
    return RandomKey(branch.request.options.seed, branch.spec.name, branch.draw_items, draws + ahead, purpose)


@lru_cache(maxsize=256)
def _combined(sampling: Sampling, base: Sampling) -> Sampling:
    """Cached: the same few samplings are combined for every token."""
    return sampling.over(base)
