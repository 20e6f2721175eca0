"""An object: keys and punctuation are the skeleton, every value is a branch forked behind its key.

beside (the default)   {"brand": ┬ …, "price": ┬ …}            a branch per value
after                  … ┬ [wait] "headline": …                the key is written where it is awaited
sequential group       {"a": ┬ … , "b": … , "c": …             one branch for the whole group
in order               {"a": … , "b": … }                      no branch at all
"""

from __future__ import annotations

from dataclasses import replace

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import BranchId, Fork, Hole, Join, Segment, Text
from pastalang.plan.policies.json_stretches import FieldBlock, field_blocks, order_of_need
from pastalang.plan.policies.json_text import JsonContext, Segments, WriteValue, key_text, look_at, merge_texts
from pastalang.plan.token_bounds import max_tokens_of
from pastalang.program.types import Field, Object


def write_object(builder: PlanBuilder, object: Object, at: JsonContext, value: WriteValue) -> Segments:
    assert object.fields, "an empty object is known text"
    parts = _in_order(builder, object, at, value) if at.in_order else _beside(builder, object, at, value)
    comma = Text("," + at.line(deeper=1))
    pieces: list[Segment] = [Text("{" + at.line(deeper=1)), *parts[0]]
    for part in parts[1:]:
        pieces.append(comma)
        pieces.extend(part)
    pieces.append(Text(at.line() + "}"))
    return merge_texts(tuple(pieces))


def _in_order(builder: PlanBuilder, object: Object, at: JsonContext, value: WriteValue) -> list[Segments]:
    return [_field(builder, field, at, value) for field in object.fields]


def _beside(builder: PlanBuilder, object: Object, at: JsonContext, value: WriteValue) -> list[Segments]:
    stretches = field_blocks(object)
    root = _root_of_item(stretches) if at.in_chain else None
    parts: dict[int, Segments] = {}
    made: dict[int, tuple[BranchId, ...]] = {}
    for index in order_of_need(stretches):
        stretch = stretches[index]
        awaited = tuple(sorted({branch for need in stretch.needs for branch in made[need]}))
        with builder.watch() as started:
            if awaited:
                parts[index] = _awaiting(builder, stretch, awaited, at, value)
            elif index == root or _needs_no_branch(stretch):
                parts[index] = _in_place(builder, stretch.fields[0], at, value, is_root=index == root)
            else:
                parts[index] = _forked(builder, stretch, at, value)
        made[index] = tuple(started)
    return [parts[index] for index in range(len(stretches))]


def _root_of_item(stretches: tuple[FieldBlock, ...]) -> int | None:
    """What the chain of a list decodes itself: the first field with something to decode, if it need not wait."""
    for index, stretch in enumerate(stretches):
        if not all(_is_known(field) for field in stretch.fields):
            return None if stretch.needs or stretch.is_group else index
    return None


def _needs_no_branch(stretch: FieldBlock) -> bool:
    """A known value is text, and a plain nested object belongs to the same skeleton."""
    field = stretch.fields[0]
    is_single = len(stretch.fields) == 1
    return is_single and (_is_known(field) or (isinstance(field.type, Object) and not stretch.is_group))


def _is_known(field: Field) -> bool:
    return look_at(field.type, 0).is_whole


def _in_place(builder: PlanBuilder, field: Field, at: JsonContext, value: WriteValue, *, is_root: bool) -> Segments:
    return _field(builder, field, at, value, in_chain=is_root and isinstance(field.type, Object))


def _forked(builder: PlanBuilder, stretch: FieldBlock, at: JsonContext, value: WriteValue) -> Segments:
    """The key of the first field stays in the skeleton."""
    first = stretch.fields[0]
    branch = builder.start(at.key(first.key, None).path)
    lead, *rest = _block(builder, stretch, at, value)
    assert isinstance(lead, Text)
    key = key_text(first.key)
    segments = merge_texts((Text(lead.text.removeprefix(key)), *rest))
    lockstep = builder.next_in_group(at.group) if at.group is not None and _is_plain_value(segments) else None
    builder.finish(branch, segments, reserve=max_tokens_of(segments, builder.reserves), lockstep=lockstep)
    return (Text(key), Fork(branch))


def _is_plain_value(segments: Segments) -> bool:
    """One value: in lock-step the keys and brackets of a structure would hold everything up, or be held up by it."""
    return len(segments) == 1 and isinstance(segments[0], Hole)


def _awaiting(
    builder: PlanBuilder, stretch: FieldBlock, awaited: tuple[BranchId, ...], at: JsonContext, value: WriteValue
) -> Segments:
    """The branch waits first and writes its own key, so that something is fed that sees what was awaited."""
    branch = builder.start(at.key(stretch.fields[0].key, None).path)
    segments = (Join(awaited), *_block(builder, stretch, at, value))
    builder.finish(branch, segments, reserve=max_tokens_of(segments, builder.reserves))
    return (Fork(branch),)


def _block(builder: PlanBuilder, stretch: FieldBlock, at: JsonContext, value: WriteValue) -> Segments:
    """The fields of a stretch as one branch writes them, beginning with the first key."""
    place = at.ordered() if stretch.is_group else at.apart()
    comma = Text("," + at.line(deeper=1))
    segments = list(_field(builder, stretch.fields[0], place, value))
    for field in stretch.fields[1:]:
        segments.append(comma)
        segments.extend(_field(builder, field, place, value))
    return merge_texts(tuple(segments))


def _field(
    builder: PlanBuilder, field: Field, at: JsonContext, value: WriteValue, *, in_chain: bool = False
) -> Segments:
    place = replace(at.key(field.key, field.sampling), in_chain=in_chain)
    return (Text(key_text(field.key)), *value(builder, field.type, place))
