"""How a branch draws its next token: a branch that waits for logits comes in, an `Ask` goes out."""

from __future__ import annotations

from functools import lru_cache

from pastalang.program.types import Sampling
from pastalang.runtime.decode.draws import Draw
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.sampler import Ask
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.drawing import tokens_before


def ask_for(branch: BranchState) -> Ask:
    request = branch.request
    decision = branch.decision
    if branch.hole is not None:
        sampling = _settled(branch.hole.hole.sampling, request.base)
        allowed: TokenMask | None = branch.hole.allowed()
    else:
        assert decision is not None
        tokens = decision.allowed()
        sampling = _settled(decision.sampling, request.base)
        allowed = None if tokens is None else request.tokens.mask(tokens)
    draw = Draw(request.seed, branch.name, branch.draw_items, branch.draws, branch.purpose)
    return Ask(draw, sampling, allowed, tokens_before(branch, sampling))


@lru_cache(maxsize=256)
def _settled(sampling: Sampling, base: Sampling) -> Sampling:
    """The few that there are come again for every token."""
    return sampling.over(base)
