"""Threads: branches that the model opens itself with control tags in its text.

    text ──<promise …/>──┬── text goes on without seeing the thread ──<sync/>── sees all threads
                         └── <async> … </async>

The token that completes a `<sync/>` is fed only once the threads have ended, so that the token sees them. A thread is
an instance of the last branch of the plan, in the order in which the threads begin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from pastalang.limits import MAX_THREADS
from pastalang.plan.plan import Branch, BranchId, Form, Hole, Plan, Release, Text
from pastalang.plan.positions import after_fork, thread_rooms
from pastalang.plan.structure import walk
from pastalang.program.program import AutoPolicy
from pastalang.runtime.constraints.tagged_text import THREAD, Begin, Tag, TaggedTextState, Wait
from pastalang.runtime.scheduler.branch import BranchState, Seen, Stage
from pastalang.runtime.scheduler.hole import Fill, OpenHole
from pastalang.runtime.scheduler.joins import join
from pastalang.runtime.scheduler.transcript import Field, Thread, Threads

Pending: TypeAlias = tuple[Fill, tuple[tuple[int, Tag], ...]]  # a token that is not fed yet, and its tags

_OPENING = {AutoPolicy.PASTA: "<async>", AutoPolicy.APAR: "[Child]"}
_CLOSING = {AutoPolicy.PASTA: "</async>", AutoPolicy.APAR: ""}


def with_threads(plan: Plan) -> Plan:
    """The plan with the branch whose instances are threads. A plan without `auto` stays as it is."""
    if plan.auto is None:
        return plan
    hole, parent = next(
        (segment, branch)
        for branch in plan.branches
        for _, segment in walk(branch.segments)
        if isinstance(segment, Hole) and segment.form is Form.TEXT
    )
    is_joined = plan.auto is AutoPolicy.PASTA
    thread = Branch(
        BranchId(len(plan.branches)), THREAD, parent.id, (Text(_OPENING[plan.auto], shown=False), _named(hole)), (), 0,
        parent.overrun, Release.NEVER if is_joined else Release.AT_END,
    )  # fmt: skip
    return replace(plan, branches=(*plan.branches, thread))


def _named(hole: Hole) -> Hole:
    return replace(hole, field=THREAD)


def must_wait(branch: BranchState, fill: Fill, tags: tuple[tuple[int, Tag], ...]) -> bool:
    """Whether the sampled token must wait for threads before it is fed. If so, the branch waits."""
    if not any(isinstance(tag, Wait) for _, tag in tags):
        return False
    threads = threads_of(branch)
    threads.pending = fill, tags
    threads.waits.append((len(branch.drawn), len(threads.begun)))
    branch.joining_since = branch.request.last_draw
    branch.stage = Stage.JOINING
    branch.request.joining.append(branch)
    return True


def try_to_see(branch: BranchState) -> Pending | None:
    """The token that the text waits with, if all its threads have ended. From then on the text sees them."""
    threads = threads_of(branch)
    if not all(thread.branch.has_ended for thread in threads.begun):
        return None
    known = {seen.branch for seen in branch.view}
    new = tuple(thread.branch for thread in threads.begun if thread.branch not in known)
    branch.request.joining.remove(branch)
    if new:
        join(branch, new)
    pending, threads.pending = threads.pending, None
    return pending


def begin_threads(branch: BranchState, field: Field, tags: tuple[tuple[int, Tag], ...]) -> list[BranchState]:
    """Begin the threads whose tags have been completed and fed."""
    field.threads = threads = field.threads or Threads()
    begun = []
    for at, tag in tags:
        if isinstance(tag, Begin) and len(threads.begun) < MAX_THREADS:
            limit = _limit(branch)
            room = min(tag.tokens, limit, thread_rooms(limit) - threads.room)
            child = _begin(branch, len(threads.begun), room)
            threads.begun.append(Thread(tag.topic, at, len(branch.drawn), room, child))
            begun.append(child)
    return begun


def _begin(branch: BranchState, number: int, room: int) -> BranchState:
    request = branch.request
    thread = BranchId(len(request.plan.branches) - 1)
    at = after_fork(branch.position, room)
    child: BranchState = request.add(
        thread, (*branch.items, number), source=branch.last, view=(*branch.view, Seen(branch, len(branch.tokens))),
        position=at.child, highest=branch.highest, names=branch.names, parent=branch,
        draw_items=(*branch.draw_items, number),
    )  # fmt: skip
    branch.position = at.parent
    return child


def close(branch: BranchState, hole: OpenHole, state: TaggedTextState) -> None:
    """Write the closing tag of a text that ended without it, so that branches that see the text see a closed one."""
    if state.is_closed:
        return
    if hole.hole.form is Form.THOUGHT:
        text = "\n</think>"
    elif branch.spec.name == THREAD and branch.request.plan.auto is not None:
        text = _CLOSING[branch.request.plan.auto]
    else:
        return
    tokens = branch.request.tokens.encoder.control(text)
    branch.append(tokens)
    hole.field.tally.force(len(tokens))


def threads_of(branch: BranchState) -> Threads:
    assert branch.hole is not None
    field = branch.hole.field
    field.threads = field.threads or Threads()
    return field.threads


def _limit(branch: BranchState) -> int:
    [hole] = (segment for segment in branch.request.plan.branches[-1].segments if isinstance(segment, Hole))
    return hole.max_tokens


def passes_of(text: BranchState, threads: Threads) -> int:
    """How many passes a text and its threads take if nothing waits for memory: the longest path through them.

    A draw takes a pass. A thread draws first in the pass that feeds the tag which began it; a text that waits goes on
    in the pass after the last draw of those it waits for.
    """
    waits = dict(threads.waits)
    ends: list[int] = []
    at = 0  # the pass of the draw
    for draw in range(1, len(text.drawn) + 1):
        at += 1
        if draw in waits:
            at = max([at, *ends[: waits[draw]]])
        ends += [at + len(thread.branch.drawn) for thread in threads.begun if thread.draw == draw]
    return max([at, *ends])
