"""Threads: branches that the model opens itself with control tags in its text.

    text ──<promise …/>──┬── text goes on without seeing the thread ──<sync/>── sees all threads
                         └── <async> … </async>

The token that completes a `<sync/>` is fed only once the threads have ended, so that the token sees them. Threads are
the instances of a branch that their text's hole names, in the order in which they begin.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from pastalang.limits import MAX_THREADS
from pastalang.plan.branches import Form
from pastalang.plan.positions import after_fork, thread_rooms
from pastalang.program.types import AutoPolicy
from pastalang.runtime.constraints.tagged_text import Begin, Tag, TaggedTextState, Wait
from pastalang.runtime.scheduler.hole import Fill, OpenHole
from pastalang.runtime.scheduler.scope import names_here
from pastalang.runtime.scheduler.state import BranchState, Filled, Stage, WithTags
from pastalang.runtime.scheduler.transcript import Author, Field, Thread, Threads
from pastalang.runtime.scheduler.visibility import join, skip_to, start_branch

_CLOSING = {AutoPolicy.PASTA: "</async>", AutoPolicy.APAR: ""}


def must_wait(branch: BranchState, fill: Fill, tags: tuple[tuple[int, Tag], ...]) -> bool:
    """Whether the sampled token must wait for threads before it is fed. If so, the branch waits."""
    if not any(isinstance(tag, Wait) for _, tag in tags):
        return False
    branch.pending.held_back = fill, tags
    branch.pending.since = branch.request.counts.last_draw
    branch.stage = Stage.JOINING
    branch.request.pending.joining.append(branch)
    return True


def try_to_see(branch: BranchState) -> WithTags | None:
    """The token that the text waits with, if all its threads have ended. From then on the text sees them."""
    threads = [thread.branch for thread in threads_of(branch).begun if isinstance(thread.branch, BranchState)]
    if not all(thread.has_ended for thread in threads):
        return None
    known = {seen.branch for seen in branch.sequence.view}
    new = tuple(thread for thread in threads if thread not in known)
    branch.request.pending.joining.remove(branch)
    if new:
        join(branch, new)
    held_back, branch.pending.held_back = branch.pending.held_back, None
    return held_back


def begin_threads(branch: BranchState, open: OpenHole, tags: tuple[tuple[int, Tag], ...]) -> list[BranchState]:
    """Begin the threads whose tags have been completed and fed."""
    hole, field = open.hole, open.field
    field.threads = threads = field.threads or Threads()
    begun: list[BranchState] = []
    for at, tag in tags:
        if isinstance(tag, Begin) and len(threads.begun) < MAX_THREADS:
            limit = hole.max_tokens
            room = min(tag.tokens, limit, thread_rooms(limit) - threads.room)
            child = _begin(branch, room)
            length = field.decoding.draws  # by now, of the text: what a thread takes that is not announced
            child.memory.expected = min(room or length, limit)
            threads.begun.append(Thread(tag.topic, at, room, child))
            begun.append(child)
    return begun


def repeat_text(branch: BranchState, filled: Filled) -> Generator[BranchState, None, Field]:
    """Feed a field as it was fed before. Gives its threads as they begin: they have to end before it goes on."""
    assert branch.repeats.before is not None
    field, before = filled.field, branch.repeats.before.sequence
    if field.threads is None:
        branch.append(before.tokens[filled.start : filled.end])
        return field
    threads, begun = Threads(), dict[Author, BranchState]()
    for index in range(filled.start, filled.end + 1):
        for thread in field.threads.begun:
            if _begins_at(thread) == index:
                begun[thread.branch] = child = _begin(branch, thread.room)
                threads.begun.append(replace(thread, branch=child))
                yield child
        if index < filled.end:
            if new := tuple(begun[one] for one in before.joins.get(index, ()) if one in begun):
                join(branch, new)
            branch.append(before.tokens[index : index + 1])
    return replace(field, threads=threads)


def _begin(branch: BranchState, room: int) -> BranchState:
    at, number = after_fork(branch.sequence.position, room), branch.cursor.threads
    thread = branch.cursor.thread(number)
    child = start_branch(
        branch, thread.branch, thread.items, at.child, names=names_here(branch),
        draw_items=(*branch.draw_items_here, number),
    )  # fmt: skip
    skip_to(branch, at.parent)
    branch.cursor = branch.cursor.with_thread()
    return child


def _begins_at(thread: Thread) -> int:
    """The number of tokens that its text had when it began."""
    assert isinstance(thread.branch, BranchState)
    source = thread.branch.sequence.source
    return 0 if source is None else source.index + 1


def close(branch: BranchState, hole: OpenHole, state: TaggedTextState) -> None:
    """Write the closing tag of a text that ended without it, so that branches that see the text see a closed one."""
    if state.is_closed:
        return
    if hole.hole.form is Form.THOUGHT:
        text = "\n</think>"
    elif hole.hole.is_thread and hole.hole.auto is not None:
        text = _CLOSING[hole.hole.auto]
    else:
        return
    tokens = branch.request.tokens.encoder.control(text)
    branch.append(tokens)


def may_be_waited_for(branch: BranchState) -> bool:
    """Whether the text that began this branch as a thread is still being written, and may come to see it."""
    text = branch.parent
    opened = None if text is None else text.pending.hole
    if opened is None or opened.hole.threads != branch.spec.id:
        return False
    return opened.hole.auto is AutoPolicy.PASTA


def threads_of(branch: BranchState) -> Threads:
    hole = branch.pending.hole
    assert hole is not None
    field = hole.field
    field.threads = field.threads or Threads()
    return field.threads
