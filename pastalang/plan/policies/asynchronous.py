"""Promise, async, sync: a block beside the text that follows it, seen again from the sync on."""

from __future__ import annotations

from pastalang.plan.builder import PlanBuilder, Promised
from pastalang.plan.plan import Fork, Join, Place, Text
from pastalang.plan.policies.text_place import SYNC_TAG, Segments, TextContext, WritePieces
from pastalang.program.pieces import Async, Promise, Sync

ASYNC_TAG = Text("<async>", shown=False)
END_TAG = Text("</async>", shown=False)


def write_promise(builder: PlanBuilder, promise: Promise, where: TextContext) -> Segments:
    """The branch starts behind the announcement; its text stands where the `async` stands."""
    if builder.is_sequential:
        return ()
    branch = builder.start(where.name(promise.name))
    builder.promised[promise.name] = Promised(branch, promise.reserve or 0)
    builder.reserves[branch] = promise.reserve or 0
    tokens = "" if promise.reserve is None else f' tokens="{promise.reserve}"'
    return (Text(f'<promise topic="{promise.topic}"{tokens}/>', shown=False), Fork(branch))


def write_async(builder: PlanBuilder, block: Async, where: TextContext, write: WritePieces) -> Segments:
    if builder.is_sequential:
        return write(builder, block.body, where)
    if block.promised:
        return _keep_promise(builder, block, where, write)
    branch = builder.start(where.name(block.name))
    with builder.watch() as inner:
        segments = write(builder, block.body, where)
    builder.finish(branch, segments, reserve=block.reserve or 0)
    builder.branches_of[block.name] = (branch, *inner)
    return (Fork(branch),)


def write_sync(builder: PlanBuilder, sync: Sync) -> Segments:
    """What a block forked itself belongs to the block: whoever waits for it waits for all of it."""
    if builder.is_sequential:
        return ()
    branches = tuple(sorted({branch for name in sync.names for branch in builder.branches_of[name]}))
    if any(name in builder.promised for name in sync.names):
        return (Join(branches), SYNC_TAG)
    return (Join(branches),)


def _keep_promise(builder: PlanBuilder, block: Async, where: TextContext, write: WritePieces) -> Segments:
    promised = builder.promised[block.name]
    with builder.watch() as inner:
        segments = write(builder, block.body, where)
    builder.finish(promised.branch, (ASYNC_TAG, *segments, END_TAG), reserve=promised.reserve)
    builder.branches_of[block.name] = (promised.branch, *inner)
    return (Place(promised.branch),)
