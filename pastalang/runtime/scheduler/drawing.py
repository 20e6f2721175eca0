"""What a branch that draws needs to be known by: the tokens it has written, and why it got none."""

from __future__ import annotations

from pastalang.program.types import Sampling
from pastalang.runtime.decode.sampler import NoMemory, NotFinite, Outcome
from pastalang.runtime.errors import DeadEnd, NotFiniteLogits, OutOfMemory, RunError
from pastalang.runtime.scheduler.branch import BranchState


def tokens_before(branch: BranchState, sampling: Sampling) -> tuple[int, ...]:
    """The tokens that a repetition penalty holds against: those that the branch has written itself, and its beginning,
    be it kept from an earlier request or written by the branch that it stands for."""
    if sampling.repetition_penalty in (None, 1.0):
        return ()
    beginning = (seen.branch.tokens[: seen.length] for seen in branch.own_before)
    return (*(token for tokens in beginning for token in tokens), *branch.tokens)


def no_token(branch: BranchState, outcome: Outcome) -> RunError:
    asked = branch.hole.hole if branch.hole is not None else branch.decision
    assert asked is not None
    kinds: dict[type[object], type[RunError]] = {NotFinite: NotFiniteLogits, NoMemory: OutOfMemory}
    kind = kinds.get(type(outcome), DeadEnd)
    return kind(str(outcome), plan=branch.request.plan, field=asked.field, span=asked.span)
