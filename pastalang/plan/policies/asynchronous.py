"""Promise, async, sync: a block beside the text that follows it, seen again from the sync on."""

from __future__ import annotations

from pastalang.plan.draft import PlanBuilder, Promised
from pastalang.plan.plan import Fork, Join, Place, Text
from pastalang.plan.policies.text_place import SYNC_TAG, Segments, Where, WritePieces
from pastalang.program.pieces import Async, Promise, Sync

ASYNC_TAG = Text("<async>", shown=False)
END_TAG = Text("</async>", shown=False)


def write_promise(draft: PlanBuilder, promise: Promise, where: Where) -> Segments:
    """The branch starts behind the announcement; its text stands where the `async` stands."""
    if draft.is_sequential:
        return ()
    branch = draft.start(where.name(promise.name))
    draft.promised[promise.name] = Promised(branch, promise.reserve or 0)
    draft.reserves[branch] = promise.reserve or 0
    tokens = "" if promise.reserve is None else f' tokens="{promise.reserve}"'
    return (Text(f'<promise topic="{promise.topic}"{tokens}/>', shown=False), Fork(branch))


def write_async(draft: PlanBuilder, block: Async, where: Where, write: WritePieces) -> Segments:
    if draft.is_sequential:
        return write(draft, block.body, where)
    if block.promised:
        return _keep_promise(draft, block, where, write)
    branch = draft.start(where.name(block.name))
    with draft.watch() as inner:
        segments = write(draft, block.body, where)
    draft.finish(branch, segments, reserve=block.reserve or 0)
    draft.beside[block.name] = (branch, *inner)
    return (Fork(branch),)


def write_sync(draft: PlanBuilder, sync: Sync) -> Segments:
    """What a block forked itself belongs to the block: whoever waits for it waits for all of it."""
    if draft.is_sequential:
        return ()
    branches = tuple(sorted({branch for name in sync.names for branch in draft.beside[name]}))
    if any(name in draft.promised for name in sync.names):
        return (Join(branches), SYNC_TAG)
    return (Join(branches),)


def _keep_promise(draft: PlanBuilder, block: Async, where: Where, write: WritePieces) -> Segments:
    promised = draft.promised[block.name]
    with draft.watch() as inner:
        segments = write(draft, block.body, where)
    draft.finish(promised.branch, (ASYNC_TAG, *segments, END_TAG), reserve=promised.reserve)
    draft.beside[block.name] = (promised.branch, *inner)
    return (Place(promised.branch),)
