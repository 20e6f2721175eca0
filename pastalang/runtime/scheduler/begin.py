"""A hole that a branch has come to: it comes in, its state goes out, and what is fed before it on its own."""

from __future__ import annotations

from pastalang.plan.plan import Hole
from pastalang.runtime.decode.guide import NoEndingFits, State
from pastalang.runtime.leads import given_to, without_lead
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.scope import sources_of


def begin(branch: BranchState, hole: Hole) -> tuple[State, tuple[int, ...]]:
    """Raises `NoEndingFits`. Where no value fits behind its lead, the lead is fed on its own."""
    request = branch.request
    room = request.room(branch)
    limit = hole.max_tokens if room is None else min(hole.max_tokens, room)
    sources, tokens = sources_of(branch), request.tokens
    guide = tokens.make_guide(hole, request.plan, sources)
    try:
        return guide.start(max_tokens=limit), ()
    except NoEndingFits:
        if not given_to(hole):
            raise
    lead: tuple[int, ...] = tokens.encoder.text(given_to(hole))
    limit = hole.max_tokens if room is None else min(hole.max_tokens, room - len(lead))
    bare = tokens.make_guide(without_lead(hole), request.plan, sources)
    return bare.start(max_tokens=limit), lead
