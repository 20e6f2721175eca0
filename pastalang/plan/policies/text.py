"""The segments and branches of running text: left to right, unless an `async`, a fork or a fan-out says otherwise.

text, inputs, holes        in the branch itself
an object in a hole        a skeleton, joined at once, by the JSON policy
promise, async, sync       a branch in parallel with the text, seen again from the sync on
fork … end                 a chain of items
fork p in list … end       a branch per item
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from pastalang import limits
from pastalang.limits import DEFAULT_LIMITS
from pastalang.plan.branches import (
    Choose,
    Each,
    Fork,
    Form,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Place,
    Repeat,
    Segment,
    Segments,
    Text,
    Value,
)
from pastalang.plan.builder import PlanBuilder, PlanError, Promised
from pastalang.plan.policies.json_value import JsonContext, merge_texts, most_items, write_value
from pastalang.plan.policies.threads import write_text
from pastalang.program import pieces as p
from pastalang.program.pieces import Async, Promise, Sync
from pastalang.program.types import Array, String
from pastalang.values.lengths import default_max_tokens
from pastalang.values.text import is_plain, is_structured


@dataclass(frozen=True, slots=True)
class TextContext:
    path: str = ""  # "" outside every loop, else "tip[]"

    def name(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def items_of(self, name: str) -> TextContext:
        return replace(self, path=f"{self.name(name)}[]")


SYNC_TAG = Text("<sync/>", shown=False)


def with_text_after_joins(segments: Segments, *, is_item: bool = False) -> Segments:
    """Something has to be fed that sees what was joined: a tag, where the program has no text there itself.

    After the last segment of an item comes the decision whether there is another one.
    """
    result: list[Segment] = []
    for index, segment in enumerate(segments):
        result.append(segment)
        is_last = index + 1 == len(segments)
        if isinstance(segment, Join) and (is_item if is_last else not _is_fed(segments[index + 1])):
            result.append(SYNC_TAG)
    return tuple(result)


def _is_fed(segment: Segment) -> bool:
    return isinstance(segment, Join) or (isinstance(segment, Text) and bool(segment.text))


def write_pieces(builder: PlanBuilder, pieces: tuple[p.Piece, ...], where: TextContext) -> Segments:
    """A fork may take the text after it along: that text is then how the list stops."""
    segments: list[Segment] = []
    index = 0
    while index < len(pieces):
        piece = pieces[index]
        index += 1
        if isinstance(piece, p.Fork):
            following = pieces[index] if index < len(pieces) else None
            written, took_text = write_fork(builder, piece, where, following)
            segments.extend(written)
            index += took_text
        else:
            segments.extend(_write_piece(builder, piece, where))
    return with_text_after_joins(merge_texts(tuple(segments)))


def _write_piece(builder: PlanBuilder, piece: p.Piece, where: TextContext) -> Segments:
    match piece:
        case p.Text(text=text):
            return (Text(text),)
        case p.InputValue(path=path, span=span):
            return (InputText(path, span),)
        case p.ItemNumber():
            return (ItemNumber(),)
        case p.Hole():
            return _write_hole(builder, piece, where)
        case p.Async():
            return write_async(builder, piece, where)
        case p.Promise():
            return write_promise(builder, piece, where)
        case p.Sync():
            return write_sync(builder, piece)
        case p.Each():
            return write_each(builder, piece, where)
        case p.For(over=path, span=span) | p.If(path=path, span=span):
            return (InputText(path, span, piece),)
        case p.Fork():
            raise AssertionError("forks are written together with the text after them")
        case _:
            assert_never(piece)


def _write_hole(builder: PlanBuilder, hole: p.Hole, where: TextContext) -> Segments:
    path = where.name(hole.name)
    builder.holes[hole.name] = (path, hole.type)
    if not is_plain(hole.type):
        return _write_json(builder, hole, path)
    sampling = hole.sampling.over(builder.sampling)
    if isinstance(hole.type, String) and hole.type.auto is not None:
        return write_text(builder, hole.type, path, Form.TEXT, sampling, hole.span)
    limit = default_max_tokens(hole.type, builder.types, quoted=False, defaults=builder.defaults)
    return (Hole(builder.name_field(path), hole.type, Form.TEXT, limit, sampling, "", hole.span),)


def _write_json(builder: PlanBuilder, hole: p.Hole, path: str) -> Segments:
    """What follows in running text sees it, so its branches are joined before its last bracket is fed."""
    at = JsonContext(
        path, 0, hole.sampling.over(builder.sampling), hole.span, in_order=builder.is_sequential, declared=hole.name
    )
    with builder.watch() as started:
        first, *others = write_value(builder, hole.type, at)
    if isinstance(first, Text | Choose | Repeat):  # another segment is the hole of the whole value
        first = replace(first, begins=Value(path, hole.type))
    segments = (first, *others)
    if not started:
        return segments
    *before, last = segments
    join = Join(tuple(started))
    return (*before, join, last) if isinstance(last, Text) else (*before, last, join)


ASYNC_TAG = Text("<async>", shown=False)
END_TAG = Text("</async>", shown=False)


def write_promise(builder: PlanBuilder, promise: Promise, where: TextContext) -> Segments:
    """The branch starts after the announcement; its text belongs where the `async` is."""
    if builder.is_sequential:
        return ()
    branch = builder.start(where.name(promise.name))
    builder.promised[promise.name] = Promised(branch, promise.reserve or 0)
    tokens = "" if promise.reserve is None else f' tokens="{promise.reserve}"'
    return (Text(f'<promise topic="{promise.topic}"{tokens}/>', shown=False), Fork(branch))


def write_async(builder: PlanBuilder, block: Async, where: TextContext) -> Segments:
    if builder.is_sequential:
        return write_pieces(builder, block.body, where)
    if block.promised:
        return _keep_promise(builder, block, where)
    branch = builder.start(where.name(block.name))
    with builder.watch() as inner:
        segments = write_pieces(builder, block.body, where)
    builder.finish(branch, segments, reserve=block.reserve or 0)
    builder.branches_of[block.name] = (branch, *inner)
    return (Fork(branch),)


def write_sync(builder: PlanBuilder, sync: Sync) -> Segments:
    """Branches that a block forked belong to the block: waiting for the block is waiting for all of them."""
    if builder.is_sequential:
        return ()
    branches = tuple(sorted({branch for name in sync.names for branch in builder.branches_of[name]}))
    if any(name in builder.promised for name in sync.names):
        return (Join(branches), SYNC_TAG)
    return (Join(branches),)


def _keep_promise(builder: PlanBuilder, block: Async, where: TextContext) -> Segments:
    promised = builder.promised[block.name]
    with builder.watch() as inner:
        segments = write_pieces(builder, block.body, where)
    builder.finish(promised.branch, (ASYNC_TAG, *segments, END_TAG), reserve=promised.reserve)
    builder.branches_of[block.name] = (promised.branch, *inner)
    return (Place(promised.branch),)


def write_fork(
    builder: PlanBuilder, fork: p.Fork, where: TextContext, following: p.Piece | None
) -> tuple[Segments, bool]:
    """The list, and whether the text `following` it became the way in which it stops."""
    field = builder.name_field(where.name(fork.name))
    with builder.watch() as inner:
        written = write_pieces(builder, fork.body, where.items_of(fork.name))
    lead, body = _split(with_text_after_joins(written, is_item=True))
    builder.branches_of[fork.name] = tuple(inner)
    has_choice = fork.minimum < fork.maximum
    if has_choice and not lead:
        raise PlanError(
            "the items of this fork begin with a hole, so nothing tells the next item from the end of the list",
            fork.span,
            help='begin the items with text, such as "- ", or give the fork a fixed number of items',
        )
    stop = _stop(lead, fork, following) if has_choice else ""
    empty = stop if fork.minimum == 0 else None
    repeat = Repeat(field, fork.minimum, fork.maximum, lead, lead, stop, empty, body, builder.sampling, fork.span)
    return (repeat,), bool(stop)


def _split(segments: Segments) -> tuple[tuple[Text | ItemNumber, ...], Segments]:
    """The forced text that opens an item, and the rest of its body."""
    lead: list[Text | ItemNumber] = []
    for segment in segments:
        if not _is_lead(segment):
            break
        assert isinstance(segment, Text | ItemNumber)
        lead.append(segment)
    return tuple(lead), segments[len(lead) :]


def _is_lead(segment: Segment) -> bool:
    return isinstance(segment, ItemNumber) or (isinstance(segment, Text) and segment.shown)


def _stop(lead: tuple[Text | ItemNumber, ...], fork: p.Fork, following: p.Piece | None) -> str | None:
    """The text after the fork, if it differs from another item at once; else the model ends its turn to stop."""
    if not isinstance(following, p.Text) or not following.text:
        return None
    stop = following.text
    clash = any(stop.startswith(item) or item.startswith(stop) for item in _leads(lead, fork.maximum))
    return None if clash else stop


def _leads(lead: tuple[Text | ItemNumber, ...], maximum: int) -> Iterator[str]:
    if any(isinstance(segment, ItemNumber) for segment in lead):
        for number in range(1, maximum + 1):
            yield "".join(segment.text if isinstance(segment, Text) else str(number) for segment in lead)
    else:
        yield "".join(segment.text for segment in lead if isinstance(segment, Text))


def write_each(builder: PlanBuilder, each: p.Each, where: TextContext) -> Segments:
    over, maximum = _list_of(builder, each)
    if builder.is_sequential:
        return (_one_after_another(builder, each, where, over=over, maximum=maximum),)
    branch = builder.start(where.items_of(each.name).path)
    with builder.watch() as inner:
        segments = write_pieces(builder, each.body, where.items_of(each.name))
    builder.finish(branch, segments, reserve=each.reserve or 0)
    builder.branches_of[each.name] = (branch, *inner)
    return (Each(each.name, over, each.over_hole, branch, False, maximum, each.span),)


def _one_after_another(builder: PlanBuilder, each: p.Each, where: TextContext, *, over: str, maximum: int) -> Repeat:
    """The baseline: the same items in the branch itself."""
    field = builder.name_field(where.name(each.name))
    body = write_pieces(builder, each.body, where.items_of(each.name))
    return Repeat(
        field, 0, maximum, (), (), "", "", body, builder.sampling, each.span,
        item=each.name, over=over, over_hole=each.over_hole,
    )  # fmt: skip


def _list_of(builder: PlanBuilder, each: p.Each) -> tuple[str, int]:
    name = ".".join(each.over)
    if not each.over_hole:
        return name, limits.MAX_BRANCHES
    field, type = builder.holes[each.over[0]]
    maximum = limits.MAX_ITEMS
    if isinstance(type, Array) and len(each.over) == 1:
        maximum = most_items(type, builder.defaults if is_structured(type) else DEFAULT_LIMITS[0])
    return ".".join((field, *each.over[1:])), maximum
