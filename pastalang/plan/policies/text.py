"""Running text: left to right, unless an `async`, a fork or a fan-out says otherwise.

text, inputs, holes        in the branch itself                 here
an object in a hole        a skeleton, joined at once           here, by the JSON policies
promise, async, sync       a branch beside the text             asynchronous.py
fork … end                 a chain of items                     fork_tree.py
fork p in list … end       a branch per item                    fan_out.py
"""

from __future__ import annotations

from typing import assert_never

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Form, Hole, InputText, ItemNumber, Join, Segment, Text
from pastalang.plan.policies.asynchronous import write_async, write_promise, write_sync
from pastalang.plan.policies.fan_out import write_each
from pastalang.plan.policies.fork_tree import write_fork
from pastalang.plan.policies.json_text import JsonContext, merge_texts
from pastalang.plan.policies.json_value import write_value
from pastalang.plan.policies.text_place import Segments, TextContext, with_text_after_joins
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.values.bounds import default_max_tokens


def write_pieces(builder: PlanBuilder, pieces: tuple[p.Piece, ...], where: TextContext) -> Segments:
    """A fork takes the text behind it along: where the list can stop, that text is how it stops."""
    segments: list[Segment] = []
    index = 0
    while index < len(pieces):
        piece = pieces[index]
        index += 1
        if isinstance(piece, p.Fork):
            behind = pieces[index] if index < len(pieces) else None
            written, took_text = write_fork(builder, piece, where, behind, write_pieces)
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
            return write_async(builder, piece, where, write_pieces)
        case p.Promise():
            return write_promise(builder, piece, where)
        case p.Sync():
            return write_sync(builder, piece)
        case p.Each():
            return write_each(builder, piece, where, write_pieces)
        case p.Fork():
            raise AssertionError("forks are written together with the text behind them")
        case _:
            assert_never(piece)


def _write_hole(builder: PlanBuilder, hole: p.Hole, where: TextContext) -> Segments:
    path = where.name(hole.name)
    builder.holes[hole.name] = (path, hole.type)
    if _form(hole.type) is Form.JSON:
        return _write_json(builder, hole, path)
    limit = default_max_tokens(hole.type, builder.types, quoted=False)
    sampling = hole.sampling.over(builder.sampling)
    return (Hole(builder.name_field(path), hole.type, Form.TEXT, limit, sampling, "", hole.span),)


def _write_json(builder: PlanBuilder, hole: p.Hole, path: str) -> Segments:
    """What follows in running text sees it, so its branches are joined before its last bracket is fed."""
    at = JsonContext(
        path, 0, hole.sampling.over(builder.sampling), hole.span, in_order=builder.is_sequential, declared=hole.name
    )
    with builder.watch() as started:
        segments = write_value(builder, hole.type, at)
    if not started:
        return segments
    *before, last = segments
    join = Join(tuple(started))
    return (*before, join, last) if isinstance(last, Text) else (*before, last, join)


def _form(type: t.Type) -> Form:
    """Scalars stand in running text as they are; what has structure is spelled as JSON."""
    match type:
        case t.Union(arms=arms):
            return Form.JSON if any(_form(arm) is Form.JSON for arm in arms) else Form.TEXT
        case t.Array() | t.Tuple() | t.Map() | t.Object() | t.Named() | t.Schema() | t.Anything():
            return Form.JSON
        case _:
            return Form.TEXT
